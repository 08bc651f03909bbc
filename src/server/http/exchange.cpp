#include "server/http/exchange.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"

namespace rocmforge::server {

// Calls the reader, outside the lock, after what else there is to call. Where there is no memory for that, the reader
// finds out by itself (has_output()).
void Exchange::wake(std::unique_lock<std::mutex> lock, const std::function<void()>& first) noexcept {
  try {
    std::function<void()> reader;
    if (!std::exchange(is_woken_, true)) reader = wake_;
    lock.unlock();
    if (first) first();
    if (reader) reader();
  } catch (const std::bad_alloc&) {
  }
}

void Exchange::respond(ResponseHead head, std::string body) {
  std::unique_lock lock(mutex_);
  if (is_given_up_) return;
  CHECK(!std::exchange(is_answered_, true));
  head_ = std::move(head);
  bytes_ = std::move(body);
  is_finished_ = true;
  wake(std::move(lock));
}

void Exchange::give_up(ResponseHead head, std::string body) {
  std::unique_lock lock(mutex_);
  if (std::exchange(is_given_up_, true)) return;
  if (std::exchange(is_answered_, true)) return cancel_locked(std::move(lock));
  head_ = std::move(head);
  bytes_ = std::move(body);
  is_finished_ = true;
  wake(std::move(lock));
}

void Exchange::start_stream(ResponseHead head) {
  std::unique_lock lock(mutex_);
  if (is_given_up_) return;
  CHECK(!std::exchange(is_answered_, true));
  head_ = std::move(head);
  is_stream_ = true;
  wake(std::move(lock));
}

void Exchange::write(std::string_view bytes) {
  std::unique_lock lock(mutex_);
  if (is_given_up_) return;
  CHECK(is_stream_ && !is_finished_);
  if (is_cancelled_) return;
  const size_t n_unsent = bytes_.size() + n_taken_bytes_ + bytes.size();
  if (n_unsent > max_unsent_bytes_ || !hold_unsent(n_unsent)) return cancel_locked(std::move(lock));
  bytes_.append(bytes);
  wake(std::move(lock));
}

void Exchange::allow_unsent(size_t n) {
  const std::lock_guard lock(mutex_);
  max_unsent_bytes_ += std::min(n, SIZE_MAX - max_unsent_bytes_);
}

void Exchange::finish() {
  std::unique_lock lock(mutex_);
  if (is_given_up_) return;
  CHECK(is_stream_ && !std::exchange(is_finished_, true));
  cancelled_ = nullptr;
  wake(std::move(lock));
}

void Exchange::on_cancel(std::function<void()> callback) {
  std::unique_lock lock(mutex_);
  if (!is_cancelled_) {
    cancelled_ = std::move(callback);
    return;
  }
  lock.unlock();
  callback();
}

bool Exchange::is_cancelled() const {
  const std::lock_guard lock(mutex_);
  return is_cancelled_;
}

Exchange::Body Exchange::take_body() {
  const std::lock_guard lock(mutex_);
  return {std::exchange(request_.body, {}), std::exchange(body_hold_, {})};
}

void Exchange::hold_answer(ByteHold hold) {
  const std::lock_guard lock(mutex_);
  answer_hold_ = std::move(hold);
}

bool Exchange::resize_answer(uint64_t n) {
  const std::lock_guard lock(mutex_);
  return answer_hold_.resize(n);
}

bool Exchange::hold_unsent(size_t n) {
  return answer_hold_.resize(n > kUncountedBytes ? n : 0);
}

Exchange::Output Exchange::take() {
  const std::lock_guard lock(mutex_);
  is_woken_ = false;
  Output out;
  out.head = std::exchange(head_, std::nullopt);
  out.is_stream = is_stream_;
  out.bytes = std::exchange(bytes_, {});
  out.finished = is_finished_;
  out.cancelled = is_cancelled_;
  n_taken_bytes_ = out.bytes.size();
  if (is_stream_) (void)hold_unsent(n_taken_bytes_);  // not more than before: there is room
  return out;
}

void Exchange::on_output(std::function<void()> call) {
  std::unique_lock lock(mutex_);
  wake_ = std::move(call);
  const auto now = is_woken_ ? wake_ : nullptr;
  lock.unlock();
  if (now) now();
}

bool Exchange::has_output() const {
  const std::lock_guard lock(mutex_);
  return is_woken_;
}

void Exchange::cancel() {
  cancel_locked(std::unique_lock(mutex_));
}

void Exchange::cancel_locked(std::unique_lock<std::mutex> lock) {
  if (is_finished_ || std::exchange(is_cancelled_, true)) return;
  bytes_ = {};
  request_.body = {};
  body_hold_ = {};
  const std::function<void()> callback = std::exchange(cancelled_, nullptr);
  wake(std::move(lock), callback);
}

}  // namespace rocmforge::server
