#pragma once
// One request and its answer: the interface between the sockets and the API.
//
// The API (any thread) answers at once, or starts a stream, writes to it and finishes it. The connection (the event
// loop) takes the bytes to send. Between them is a bounded queue: a client that reads too slowly is cut off when the
// queue is full, so no thread waits for a socket. When the client leaves or is cut off, the exchange is cancelled: the
// API's callback is called once, and later writes are dropped.
//
// Tests take the connection's part: they see the answers of the API without a socket.

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
  std::string ping = {};  // of a stream: sent after a time of silence
};

class Exchange {
 public:
  static constexpr size_t kMaxUnsentBytes = 256u << 10;
  // The first bytes that a stream has unsent need no room in the budget of answers.
  static constexpr size_t kUncountedBytes = 16u << 10;

  // `body_hold` counts the request's body.
  explicit Exchange(Request request, size_t max_unsent_bytes = kMaxUnsentBytes, ByteHold body_hold = {})
      : request_(std::move(request)), max_unsent_bytes_(max_unsent_bytes), body_hold_(std::move(body_hold)) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Without the body after take_body().
  const Request& request() const { return request_; }
  struct Body {
    std::string bytes;
    ByteHold hold;  // of the bytes and of their parsed form
  };
  // The body, once. Empty if the client has left.
  Body take_body();

  // The API's side. Exactly one of respond() and start_stream(), once.
  void respond(ResponseHead head, std::string body);
  // Replaces an answer, or the rest of one, that cannot be made; later calls have no effect.
  void give_up(ResponseHead head, std::string body);
  void start_stream(ResponseHead head);
  void write(std::string_view bytes);  // REQUIRES: start_stream()
  void finish();                       // REQUIRES: start_stream()
  // Allows so many more unsent bytes, for a single large write that does not mean a slow client.
  void allow_unsent(size_t n);
  // `callback` is called once if the exchange is cancelled before it is finished; at once if it was cancelled before.
  void on_cancel(std::function<void()> callback);
  bool is_cancelled() const;
  // Counts the answer's bytes until the exchange ends, sent or not. Of a stream the unsent bytes are counted; a stream
  // for which the budget has no room is cut off.
  void hold_answer(ByteHold hold);
  // Sets the number of counted bytes to `n`. False: the budget has no room.
  [[nodiscard]] bool resize_answer(uint64_t n);

  // The connection's side.
  struct Output {
    std::optional<ResponseHead> head;  // with the first output
    bool is_stream = false;
    std::string bytes;
    bool finished = false;  // nothing follows
    bool cancelled = false;
  };
  // The output since the last call. The output of the last call counts as sent.
  Output take();
  // `call` is called on the writer's thread when there is output; once until the next take().
  void on_output(std::function<void()> call);
  // Whether take() would return output.
  bool has_output() const;
  void cancel();

 private:
  void wake(std::unique_lock<std::mutex> lock, const std::function<void()>& first = {}) noexcept;
  void cancel_locked(std::unique_lock<std::mutex> lock);
  [[nodiscard]] bool hold_unsent(size_t n);  // REQUIRES: mutex_

  Request request_;  // its body under mutex_

  mutable std::mutex mutex_;
  std::optional<ResponseHead> head_;
  std::string bytes_;
  size_t max_unsent_bytes_;
  size_t n_taken_bytes_ = 0;  // by the last take(): perhaps still on their way into the socket
  bool is_answered_ = false, is_stream_ = false, is_finished_ = false, is_cancelled_ = false;
  bool is_given_up_ = false;
  bool is_woken_ = false;
  std::function<void()> wake_, cancelled_;
  ByteHold body_hold_, answer_hold_;
};

}  // namespace rocmforge::server
