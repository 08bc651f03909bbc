#pragma once
// A client that reads answers as they stream, and keeps a ledger of every token.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/http/test_client.h"

namespace rocmforge::load {

struct Outcome {
  int status = 0;               // 0: no answer
  std::vector<int64_t> tokens;  // in order
  std::string text;
  std::string finish_reason;
  bool ended = false;  // a last event, or an error event and [DONE]
  bool has_error_event = false;
};

inline std::string post_request(std::string_view path, std::string_view body) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + std::string(body);
}
inline std::string get_request(std::string_view path) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
}

// Undoes chunked encoding as bytes arrive.
class Dechunker {
 public:
  void feed(std::string_view bytes, std::string& out) {
    raw_ += bytes;
    for (;;) {
      const size_t line = raw_.find("\r\n", at_);
      if (line == std::string::npos) break;
      const size_t size = std::stoul(raw_.substr(at_, line - at_), nullptr, 16);
      if (raw_.size() < line + 2 + size + 2) break;
      out.append(raw_, line + 2, size);
      at_ = line + 2 + size + 2;
      if (size == 0) is_done_ = true;
      if (is_done_) break;
    }
    raw_.erase(0, at_);
    at_ = 0;
  }
  bool is_done() const { return is_done_; }

 private:
  std::string raw_;
  size_t at_ = 0;
  bool is_done_ = false;
};

// POST /generate/stream; leaves after `leave_after` tokens when that is given.
inline Outcome stream(uint16_t port, std::string_view body, std::optional<size_t> leave_after = {},
                      std::chrono::milliseconds patience = std::chrono::seconds(120)) {
  using server::testing::TestClient;
  Outcome outcome;
  TestClient client(port);
  if (!client.is_open() || !client.send(post_request("/generate/stream", body))) return outcome;
  std::string head = client.read_until("\r\n\r\n", patience);
  const size_t head_end = head.find("\r\n\r\n");
  if (head_end == std::string::npos) return outcome;
  outcome.status = TestClient::status_of(head);
  if (outcome.status != 200) return outcome;
  Dechunker chunks;
  std::string text;
  chunks.feed(std::string_view(head).substr(head_end + 4), text);
  for (;;) {
    for (size_t end = text.find("\n\n"); end != std::string::npos; end = text.find("\n\n")) {
      const std::string event = text.substr(0, end);
      text.erase(0, end + 2);
      if (!event.starts_with("data: ")) continue;
      if (event == "data: [DONE]") {
        outcome.ended = outcome.has_error_event;
        continue;
      }
      const auto json = parse_json(std::string_view(event).substr(6));
      if (!json.ok()) return outcome;
      if (json->find("error")) outcome.has_error_event = true;
      if (const JsonValue* t = json->find("text"); t && t->as<std::string>()) outcome.text += *t->as<std::string>();
      if (const JsonValue* t = json->find("token"); t && t->as<int64_t>()) outcome.tokens.push_back(*t->as<int64_t>());
      if (const JsonValue* r = json->find("finish_reason"); r && r->as<std::string>()) {
        outcome.finish_reason = *r->as<std::string>();
        outcome.ended = true;
      }
      if (leave_after && outcome.tokens.size() >= *leave_after) return outcome;
    }
    if (chunks.is_done()) return outcome;
    const std::string more = client.read_some(patience);
    if (more.empty()) {
      outcome.ended = false;
      return outcome;
    }
    chunks.feed(more, text);
  }
}

// The whole answer's body; status 0 when there was none.
inline std::pair<int, std::string> ask(uint16_t port, const std::string& request,
                                       std::chrono::milliseconds patience = std::chrono::seconds(120)) {
  server::testing::TestClient client(port);
  if (!client.is_open() || !client.send(request)) return {0, ""};
  const std::string answer = client.read_all(patience);
  return {server::testing::TestClient::status_of(answer), server::testing::TestClient::body_of(answer)};
}

// One value of /metrics; the sum over models.
inline double metric(uint16_t port, std::string_view name) {
  const auto [status, body] = ask(port, get_request("/metrics"));
  double sum = 0;
  for (size_t at = 0; at < body.size();) {
    const size_t end = std::min(body.find('\n', at), body.size());
    const std::string line = body.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(name) || (line[name.size()] != '{' && line[name.size()] != ' ')) continue;
    sum += std::stod(line.substr(line.rfind(' ') + 1));
  }
  return sum;
}

}  // namespace rocmforge::load
