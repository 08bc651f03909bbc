#include "server/http/request_parser.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace rocmforge::server {
namespace {

// RFC 9110's token: what names are made of.
bool is_token_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}
bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_token_char);
}
bool is_visible(char c) {
  return c > 0x20 && c < 0x7f;
}
bool is_value_char(char c) {
  return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
}
// A host name or address with an optional port: nothing that could be read as a path or a user.
bool is_host_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-._:[]").find(c) != std::string_view::npos;
}

std::string to_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void RequestParser::fail(int status, std::string_view reason) {
  state_ = State::failed;
  error_ = {status, reason};
  line_.clear();
  request_.body = {};
}

Request RequestParser::take() {
  CHECK(state_ == State::done);
  Request request = std::move(request_);
  *this = RequestParser(limits_);
  return request;
}

const Request& RequestParser::head() const {
  CHECK(state_ == State::body);
  return request_;
}

void RequestParser::limit_body(size_t max_bytes) {
  CHECK(state_ == State::body);
  max_body_bytes_ = std::min(max_body_bytes_, max_bytes);
  // Of a chunked body only the current chunk's end is known.
  const uint64_t n_known = request_.body.size() + n_left_;
  if (n_known > max_body_bytes_) fail(413, "the body is too large");
}

Request RequestParser::take_head() {
  CHECK(state_ == State::body);
  Request request = std::move(request_);
  request.body = {};
  *this = RequestParser(limits_);
  return request;
}

size_t RequestParser::feed(std::string_view bytes) {
  size_t n_taken = 0;
  while (n_taken < bytes.size() && (state_ == State::head || state_ == State::body)) {
    has_begun_ = true;
    const std::string_view rest = bytes.substr(n_taken);
    n_taken += state_ == State::head ? feed_head(rest) : feed_body(rest);
  }
  return n_taken;
}

std::optional<std::string> RequestParser::take_line(std::string_view bytes, size_t max_bytes, HttpError too_long,
                                                    size_t& n_taken) {
  const size_t end = bytes.find('\n');
  n_taken = end == std::string_view::npos ? bytes.size() : end + 1;
  if (line_.size() + n_taken > max_bytes + 2) {
    fail(too_long.status, too_long.reason);
    return {};
  }
  line_.append(bytes.substr(0, n_taken));
  if (end == std::string_view::npos) return {};
  if (line_.size() < 2 || line_[line_.size() - 2] != '\r') {
    fail(400, "a line ends with LF alone");
    return {};
  }
  line_.resize(line_.size() - 2);
  return std::exchange(line_, {});
}

size_t RequestParser::feed_head(std::string_view bytes) {
  size_t n_taken = 0;
  if (!has_request_line_) {
    const auto line = take_line(bytes, limits_.max_line_bytes, {414, "the request line is too long"}, n_taken);
    if (!line) return n_taken;
    // Some clients end a body with one CRLF too many.
    if (!line->empty() || std::exchange(skipped_empty_line_, true)) read_request_line(*line);
    return n_taken;
  }
  const size_t left = limits_.max_head_bytes - std::min(limits_.max_head_bytes, n_head_bytes_);
  const auto line = take_line(bytes, left, {431, "the headers are too large"}, n_taken);
  if (!line) return n_taken;
  n_head_bytes_ += line->size() + 2;
  if (line->empty()) {
    end_head();
  } else {
    read_header(*line);
  }
  return n_taken;
}

void RequestParser::read_request_line(std::string_view line) {
  has_request_line_ = true;
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return fail(400, "the request line has not three parts");
  const std::string_view method = line.substr(0, first), target = line.substr(first + 1, last - first - 1),
                         version = line.substr(last + 1);
  if (!is_token(method)) return fail(400, "the method is not a token");
  if (target.empty() || !std::ranges::all_of(target, is_visible)) return fail(400, "the target is not plain ASCII");
  if (version == "HTTP/1.0") {
    request_.is_http_1_0 = true;
  } else if (version != "HTTP/1.1") {
    return version.starts_with("HTTP/") ? fail(505, "only HTTP/1.0 and HTTP/1.1 are spoken here")
                                        : fail(400, "the request line does not end with a version");
  }
  request_.method = method;
  request_.target = target;
}

void RequestParser::read_header(std::string_view line) {
  if (request_.headers.size() == limits_.max_headers) return fail(431, "there are too many headers");
  if (line[0] == ' ' || line[0] == '\t') return fail(400, "a header is folded over two lines");
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) return fail(400, "a header has no name");
  const std::string_view value = trim(line.substr(colon + 1));
  if (!std::ranges::all_of(value, is_value_char)) return fail(400, "a header holds control characters");
  request_.headers.push_back({to_lower(line.substr(0, colon)), std::string(value)});
  read_framing(request_.headers.back());
}

// The headers that say where the request ends or whom it is for.
void RequestParser::read_framing(const Header& header) {
  if (header.name == "content-length") {
    if (std::exchange(has_length_, true)) return fail(400, "there are two Content-Length headers");
    if (is_chunked_) return fail(400, "there are both Content-Length and Transfer-Encoding");
    if (header.value.empty() || header.value.find_first_not_of("0123456789") != std::string::npos) {
      return fail(400, "Content-Length is not a number");
    }
    // More digits than any limit has: too large whatever they are.
    const size_t n_digits =
        header.value.size() - std::min(header.value.find_first_not_of('0'), header.value.size() - 1);
    if (n_digits > 15) return fail(413, "the body is too large");
    n_left_ = std::stoull(header.value);
    if (n_left_ > limits_.max_body_bytes) return fail(413, "the body is too large");
  } else if (header.name == "transfer-encoding") {
    if (std::exchange(is_chunked_, true)) return fail(400, "there are two Transfer-Encoding headers");
    if (has_length_) return fail(400, "there are both Content-Length and Transfer-Encoding");
    if (request_.is_http_1_0) return fail(400, "HTTP/1.0 has no Transfer-Encoding");
    if (to_lower(header.value) != "chunked") return fail(501, "the only Transfer-Encoding is chunked");
  } else if (header.name == "content-encoding") {
    if (to_lower(header.value) != "identity") return fail(415, "compressed bodies are not accepted");
  } else if (header.name == "host") {
    if (request_.count("host") > 1) return fail(400, "there are two Host headers");
    if (!std::ranges::all_of(header.value, is_host_char)) return fail(400, "Host is not a host and port");
  } else if (header.name == "expect") {
    if (to_lower(header.value) != "100-continue") return fail(417, "the only expectation is 100-continue");
    expects_continue_ = !request_.is_http_1_0;
  }
}

// "GET http://localhost:8080/health": every server has to understand what is meant for proxies.
void RequestParser::read_absolute_target() {
  constexpr std::string_view kScheme = "http://";
  const std::string_view target = request_.target;
  if (to_lower(target.substr(0, kScheme.size())) != kScheme) return;
  const size_t end = std::min(target.find_first_of("/?", kScheme.size()), target.size());
  const std::string* host = request_.header("host");
  if (!host || to_lower(target.substr(kScheme.size(), end - kScheme.size())) != to_lower(*host)) {
    return fail(400, "the target names another host than the Host header");
  }
  std::string path(target.substr(end));
  request_.target = path.starts_with('/') ? std::move(path) : "/" + path;
}

void RequestParser::end_head() {
  if (!request_.is_http_1_0 && !request_.header("host")) return fail(400, "there is no Host header");
  read_absolute_target();
  if (state_ == State::failed) return;
  body_ = is_chunked_ ? Body::chunk_size : Body::counted;
  state_ = is_chunked_ || n_left_ > 0 ? State::body : State::done;
}

size_t RequestParser::feed_body(std::string_view bytes) {
  size_t n_taken = 0;
  switch (body_) {
    case Body::counted:
    case Body::chunk_data:
      n_taken = static_cast<size_t>(std::min<uint64_t>(n_left_, bytes.size()));
      request_.body.append(bytes.substr(0, n_taken));
      n_left_ -= n_taken;
      if (n_left_ > 0) return n_taken;
      if (body_ == Body::counted) {
        state_ = State::done;
      } else {
        body_ = Body::chunk_end;
      }
      return n_taken;
    case Body::chunk_size:
      if (const auto line = take_line(bytes, 16, {400, "a chunk's size is not a plain number"}, n_taken)) {
        read_chunk_size(*line);
      }
      break;
    case Body::chunk_end:
      if (take_line(bytes, 0, {400, "a chunk is longer than its size"}, n_taken)) body_ = Body::chunk_size;
      break;
    case Body::last_line:
      if (take_line(bytes, 0, {400, "trailers are not accepted"}, n_taken)) state_ = State::done;
      break;
  }
  return n_taken;
}

void RequestParser::read_chunk_size(std::string_view line) {
  if (line.empty()) return fail(400, "a chunk has no size");
  uint64_t size = 0;
  for (const char c : line) {
    const int digit = hex_digit(c);
    if (digit < 0) return fail(400, "a chunk's size is not a plain number");
    size = size * 16 + static_cast<uint64_t>(digit);
  }
  if (request_.body.size() > max_body_bytes_ || size > max_body_bytes_ - request_.body.size()) {
    return fail(413, "the body is too large");
  }
  n_left_ = size;
  body_ = size == 0 ? Body::last_line : Body::chunk_data;
}

}  // namespace rocmforge::server
