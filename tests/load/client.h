#pragma once
// A client that reads answers as they stream, and keeps a ledger of every token.

#include <sys/epoll.h>

#include <optional>
#include <span>
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

// Makes an outcome of the bytes of one answer to POST /generate/stream, as they come.
class AnswerReader {
 public:
  // False: nothing more is wanted, because the answer is over or broken or has as many tokens as asked for.
  bool feed(std::string_view bytes, std::optional<size_t> leave_after = {}) {
    if (outcome_.status == 0) {
      head_ += bytes;
      const size_t end = head_.find("\r\n\r\n");
      if (end == std::string::npos) return true;
      outcome_.status = server::testing::TestClient::status_of(head_);
      if (outcome_.status != 200) return false;
      chunks_.feed(std::string_view(head_).substr(end + 4), text_);
    } else {
      chunks_.feed(bytes, text_);
    }
    for (size_t end = text_.find("\n\n"); end != std::string::npos; end = text_.find("\n\n")) {
      const std::string event = text_.substr(0, end);
      text_.erase(0, end + 2);
      if (!take(event) || (leave_after && outcome_.tokens.size() >= *leave_after)) return false;
    }
    return !chunks_.is_done();
  }
  // The connection has ended before the answer.
  void cut() { outcome_.ended = false; }
  Outcome& outcome() { return outcome_; }

 private:
  bool take(std::string_view event) {
    if (!event.starts_with("data: ")) return true;
    if (event == "data: [DONE]") {
      outcome_.ended = outcome_.has_error_event;
      return true;
    }
    const auto json = parse_json(event.substr(6));
    if (!json.ok()) return false;
    if (json->find("error")) outcome_.has_error_event = true;
    if (const JsonValue* t = json->find("text"); t && t->as<std::string>()) outcome_.text += *t->as<std::string>();
    if (const JsonValue* t = json->find("token"); t && t->as<int64_t>()) outcome_.tokens.push_back(*t->as<int64_t>());
    if (const JsonValue* r = json->find("finish_reason"); r && r->as<std::string>()) {
      outcome_.finish_reason = *r->as<std::string>();
      outcome_.ended = true;
    }
    return true;
  }

  Outcome outcome_;
  std::string head_, text_;
  Dechunker chunks_;
};

// POST /generate/stream; leaves after `leave_after` tokens when that is given.
inline Outcome stream(uint16_t port, std::string_view body, std::optional<size_t> leave_after = {},
                      std::chrono::milliseconds patience = std::chrono::seconds(120)) {
  AnswerReader reader;
  server::testing::TestClient client(port);
  if (!client.is_open() || !client.send(post_request("/generate/stream", body))) return reader.outcome();
  for (;;) {
    const std::string more = client.read_some(patience);
    if (more.empty()) {
      reader.cut();
      break;
    }
    if (!reader.feed(more, leave_after)) break;
  }
  return reader.outcome();
}

// The same for several at once, from one thread that does nothing with the bytes but keep them until all have come:
// clients share the machine with the server that is measured.
struct TimedOutcomes {
  std::vector<Outcome> outcomes;
  double seconds = 0;  // from the first connection to the last byte
};
inline TimedOutcomes timed_streams(uint16_t port, std::span<const std::string> bodies) {
  using server::testing::TestClient;
  const auto begin = std::chrono::steady_clock::now();
  const int poll = epoll_create1(0);
  std::vector<TestClient> clients;
  std::vector<std::string> answers(bodies.size());
  for (uint32_t i = 0; i < bodies.size(); i++) {
    clients.emplace_back(port);
    epoll_event event{.events = EPOLLIN, .data = {.u32 = i}};
    epoll_ctl(poll, EPOLL_CTL_ADD, clients[i].descriptor(), &event);
    clients[i].send(post_request("/generate/stream", bodies[i]));
  }
  for (size_t n_open = clients.size(); n_open > 0;) {
    epoll_event events[64];
    const int n = epoll_wait(poll, events, std::size(events), 120'000);
    if (n <= 0) break;
    for (const epoll_event& event : std::span(events, static_cast<size_t>(n))) {
      char buffer[16384];
      const ssize_t n_read = recv(clients[event.data.u32].descriptor(), buffer, sizeof buffer, 0);
      if (n_read > 0) {
        answers[event.data.u32].append(buffer, static_cast<size_t>(n_read));
      } else {
        clients[event.data.u32].close();
        n_open--;
      }
    }
  }
  TimedOutcomes timed;
  timed.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  close(poll);
  for (const std::string& answer : answers) {
    AnswerReader reader;
    reader.feed(answer);
    timed.outcomes.push_back(std::move(reader.outcome()));
  }
  return timed;
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
