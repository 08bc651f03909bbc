#pragma once
// Bytes to a Request: HTTP/1.0 and 1.1, incremental, strict, bounded before anything is allocated.
//
// The parser is strict because readers that disagree about the end of a request allow request smuggling: a bare CR or
// LF, a folded line, a space before a colon, both lengths or two of one, a chunk extension, a trailer - each is refused
// and the connection closed. Boost.Beast's parser accepts some of these (it unfolds folded lines) and bounds neither a
// line nor the number of headers, so this one is our own; it is fuzzed.
//
// Threads: one object per connection.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/request.h"

namespace rocmforge::server {

struct HttpLimits {
  size_t max_line_bytes = 8u << 10;   // the request line
  size_t max_head_bytes = 64u << 10;  // all headers together
  size_t max_headers = 100;
  size_t max_body_bytes = 16u << 20;
};

// Why a request is malformed or too large.
struct HttpError {
  int status = 400;
  std::string_view reason;  // a sentence for people
};

class RequestParser {
 public:
  enum class State : uint8_t { head, body, done, failed };

  explicit RequestParser(const HttpLimits& limits = {}) : limits_(limits), max_body_bytes_(limits.max_body_bytes) {}

  // Takes the bytes of this request from `bytes` and returns their number: less than bytes.size() only when the request
  // is done or has failed.
  size_t feed(std::string_view bytes);

  State state() const { return state_; }
  // Whether any byte of a request has arrived.
  bool has_begun() const { return has_begun_; }
  // Whether the client waits for "100 Continue" before it sends the body.
  bool expects_continue() const { return state_ == State::body && expects_continue_; }
  size_t body_bytes() const { return request_.body.size(); }

  // The head alone. REQUIRES: state() == body
  const Request& head() const;
  // Fails (413) if this request's body is, or says it will be, longer. REQUIRES: state() == body
  void limit_body(size_t max_bytes);
  // The request without its body, which is not read: the following bytes are no request.
  // REQUIRES: state() == body
  Request take_head();

  // REQUIRES: state() == failed
  const HttpError& error() const { return error_; }
  // REQUIRES: state() == done. The parser is ready for the next request afterwards.
  Request take();

 private:
  enum class Body : uint8_t { counted, chunk_size, chunk_data, chunk_end, last_line };

  size_t feed_head(std::string_view bytes);
  size_t feed_body(std::string_view bytes);
  // Takes bytes up to and with a LF, and counts them; the line without its CRLF once it is whole.
  std::optional<std::string> take_line(std::string_view bytes, size_t max_bytes, HttpError too_long, size_t& n_taken);
  void read_request_line(std::string_view line);
  void read_header(std::string_view line);
  void read_framing(const Header& header);
  void read_absolute_target();
  void end_head();
  void read_chunk_size(std::string_view line);
  void fail(int status, std::string_view reason);

  HttpLimits limits_;
  size_t max_body_bytes_;  // of this request
  State state_ = State::head;
  Body body_ = Body::counted;
  HttpError error_;
  Request request_;
  std::string line_;  // the start of one
  size_t n_head_bytes_ = 0;
  uint64_t n_left_ = 0;  // of the body, or of the chunk
  bool has_begun_ = false, has_request_line_ = false, skipped_empty_line_ = false;
  bool has_length_ = false, is_chunked_ = false, expects_continue_ = false;
};

}  // namespace rocmforge::server
