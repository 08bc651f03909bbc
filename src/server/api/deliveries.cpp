#include "server/api/deliveries.h"

#include <new>
#include <utility>

namespace rocmforge::server {

EventReceiver Deliveries::to(EventReceiver receiver) {
  auto shared = std::make_shared<EventReceiver>(std::move(receiver));
  return [self = shared_from_this(), shared = std::move(shared)](RequestEvent&& event) mutable {
    const bool is_last = std::holds_alternative<FinishEvent>(event);
    self->push({is_last ? std::move(shared) : shared, std::move(event)});
  };
}

void Deliveries::push(Delivery delivery) {
  const auto* token = std::get_if<TokenEvent>(&delivery.event);
  const bool can_wait = token != nullptr && token->more_follow;
  bool is_mine = false, is_first = false;
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(delivery));
    is_mine = waiting_.size() >= kMaxWaiting;
    is_first = !is_mine && !can_wait && !std::exchange(is_posted_, true);
  }
  if (is_mine || (is_first && !wake_loop())) deliver();
}

bool Deliveries::wake_loop() noexcept {
  try {
    const std::lock_guard lock(posting_);
    if (post_) post_([self = shared_from_this()] { self->deliver(); });
    return post_ != nullptr;
  } catch (const std::exception&) {
    return false;
  }
}

void Deliveries::deliver() {
  const std::lock_guard order(delivering_);
  {
    const std::lock_guard lock(mutex_);
    taken_.swap(waiting_);
    is_posted_ = false;
  }
  for (Delivery& delivery : taken_) {
    try {
      (*delivery.receiver)(std::move(delivery.event));
    } catch (const std::exception&) {  // its request is lost; those of the others are not
    }
  }
  taken_.clear();
}

void Deliveries::close() {
  {
    const std::lock_guard lock(posting_);
    post_ = nullptr;
  }
  deliver();
}

}  // namespace rocmforge::server
