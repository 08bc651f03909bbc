#include "server/api/deliveries.h"

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
  bool is_mine = false;
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(delivery));
    is_mine = !post_ || waiting_.size() >= kMaxWaiting;
    // With the lock held: after close() the loop may be gone.
    if (!is_mine && !std::exchange(is_posted_, true)) post_([self = shared_from_this()] { self->deliver(); });
  }
  if (is_mine) deliver();
}

void Deliveries::deliver() {
  const std::lock_guard order(delivering_);
  {
    const std::lock_guard lock(mutex_);
    taken_.swap(waiting_);
    is_posted_ = false;
  }
  for (Delivery& delivery : taken_) (*delivery.receiver)(std::move(delivery.event));
  taken_.clear();
}

void Deliveries::close() {
  {
    const std::lock_guard lock(mutex_);
    post_ = nullptr;
  }
  deliver();
}

}  // namespace rocmforge::server
