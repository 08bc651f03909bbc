// Any bytes as a client's: requests or a refusal, the same wherever the bytes are cut, and never more held than the
// limits allow.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "server/http/request_parser.h"
#include "server/http/response.h"

namespace {

using namespace rocmforge::server;

constexpr HttpLimits kLimits{.max_line_bytes = 256, .max_head_bytes = 1024, .max_headers = 8, .max_body_bytes = 2048};

// Everything a connection would see, as one text.
std::string read_in_pieces(std::string_view bytes, size_t piece) {
  RequestParser parser(kLimits);
  std::string seen;
  while (!bytes.empty()) {
    const size_t n = parser.feed(bytes.substr(0, piece));
    CHECK(n <= bytes.size());
    bytes.remove_prefix(n);
    CHECK(parser.body_bytes() <= kLimits.max_body_bytes);
    if (parser.state() == RequestParser::State::failed) return seen + parser.error().reason.data();
    if (parser.state() != RequestParser::State::done) continue;
    const Request request = parser.take();
    CHECK(request.headers.size() <= kLimits.max_headers);
    CHECK(request.target.size() <= kLimits.max_line_bytes);
    CHECK(request.count("content-length") + request.count("transfer-encoding") <= 1);
    wants_to_stay(request);
    seen += request.method + ' ' + request.target + '\n';
    for (const Header& header : request.headers) {
      CHECK(header.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
      seen += header.name + ':' + header.value + '\n';
    }
    seen += request.body + '\n';
  }
  return seen;
}

// As the server does it: every request is judged by its head, and its body then bounded or not awaited at all. What is
// held of a body never exceeds the bound, but for what came in one piece with the head.
void judge_heads(std::string_view bytes, size_t piece) {
  constexpr size_t kMaxBody = 64;
  RequestParser parser(kLimits);
  bool is_judged = false;
  while (!bytes.empty()) {
    const size_t n = parser.feed(bytes.substr(0, piece));
    bytes.remove_prefix(n);
    if (parser.state() == RequestParser::State::failed) {
      CHECK(parser.error().status >= 400 && !parser.error().reason.empty());
      return;
    }
    if (parser.state() == RequestParser::State::done) {
      parser.take();
      is_judged = false;
      continue;
    }
    if (parser.state() != RequestParser::State::body) continue;
    CHECK(parser.body_bytes() <= (is_judged ? kMaxBody : piece));
    if (is_judged) continue;
    const std::string target = parser.head().target;
    if (target.size() % 2 == 0) {
      CHECK(parser.take_head().target == target);  // the connection ends with the answer
      return;
    }
    parser.limit_body(kMaxBody);
    is_judged = true;
    if (parser.state() == RequestParser::State::failed) {
      CHECK(parser.error().status == 413);
      return;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  CHECK(read_in_pieces(bytes, SIZE_MAX) == read_in_pieces(bytes, size_t{data[0]} + 1));
  judge_heads(bytes, size_t{data[0]} + 1);
  return 0;
}
