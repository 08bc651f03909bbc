#pragma once
// One request and its answer: the seam between the sockets and the API.
//
// The API side (any thread) answers at once or starts a stream, writes to it and finishes it. The connection (the event
// loop) takes what is to be sent. Between them lies a bounded queue: a client that reads too slowly to keep it below
// its bound is cut off, so nobody ever waits for a socket. When the client goes away, or is cut off, the exchange is
// cancelled: the API's callback is called once, and what is written from then on is dropped.
//
// Tests take the connection's place: no socket is needed to see what an API answers.

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/byte_budget.h"
#include "server/http/request.h"

namespace rocmforge::server {

struct ResponseHead {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<Header> headers = {};
  std::string ping = {};  // of a stream: sent when it was silent for a while
};

class Exchange {
 public:
  static constexpr size_t kMaxUnsentBytes = 256u << 10;
  // A stream that is read has less than this unsent, and needs no room in the budget of answers.
  static constexpr size_t kUncountedBytes = 16u << 10;

  // `body_hold` counts the request's body.
  explicit Exchange(Request request, size_t max_unsent_bytes = kMaxUnsentBytes, ByteHold body_hold = {})
      : request_(std::move(request)), max_unsent_bytes_(max_unsent_bytes), body_hold_(std::move(body_hold)) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // The body is left to take_body().
  const Request& request() const { return request_; }
  struct Body {
    std::string bytes;
    ByteHold hold;  // of the bytes, and of what is made of them
  };
  // The body is large and needed once. A client that leaves before takes it along.
  Body take_body();

  // The API's side. Exactly one of respond() and start_stream(), once.
  void respond(ResponseHead head, std::string body);
  // Instead of an answer that cannot be made, or of its rest: what is called after it has no effect.
  void give_up(ResponseHead head, std::string body);
  void start_stream(ResponseHead head);
  void write(std::string_view bytes);  // REQUIRES: start_stream()
  void finish();                       // REQUIRES: start_stream()
  // `callback` is called once if the exchange is cancelled before it is finished; at once if it is already.
  void on_cancel(std::function<void()> callback);
  bool is_cancelled() const;
  // Counts the answer until the exchange ends: when it has been sent, or never will be. Of a stream it counts what is
  // unsent; one for which the budget has no room is cut off.
  void hold_answer(ByteHold hold);
  // The number of bytes that are counted becomes `n`. False: there is no room for more.
  [[nodiscard]] bool resize_answer(uint64_t n);

  // The connection's side.
  struct Output {
    std::optional<ResponseHead> head;  // with the first output
    bool is_stream = false;
    std::string bytes;
    bool finished = false;  // nothing follows
    bool cancelled = false;
  };
  // What was written since the last call, which has been sent by now.
  Output take();
  // `call` is called, on the writer's thread, when there is something to take; once until the next take().
  void on_output(std::function<void()> call);
  // Whether there is something to take.
  bool has_output() const;
  void cancel();

 private:
  void wake(std::unique_lock<std::mutex> lock, const std::function<void()>& first = {}) noexcept;
  void cancel_locked(std::unique_lock<std::mutex> lock);
  [[nodiscard]] bool hold_unsent(size_t n);  // REQUIRES: mutex_

  Request request_;  // its body under mutex_
  const size_t max_unsent_bytes_;

  mutable std::mutex mutex_;
  std::optional<ResponseHead> head_;
  std::string bytes_;
  size_t n_taken_bytes_ = 0;  // by the last take(): perhaps still on their way into the socket
  bool is_answered_ = false, is_stream_ = false, is_finished_ = false, is_cancelled_ = false;
  bool is_given_up_ = false;
  bool is_woken_ = false;
  std::function<void()> wake_, cancelled_;
  ByteHold body_hold_, answer_hold_;
};

}  // namespace rocmforge::server
