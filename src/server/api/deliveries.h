#pragma once
// Queues token and finish events from engine threads to the event loop. An engine thread appends; the event loop takes
// all queued events at once and calls their receivers in order, so no step waits for tokens to become JSON. The last
// event of a step wakes the loop. Waking it with the first would run the loop once per token, and each run would take a
// core from a thread that computes.
//
// When kMaxWaiting events are queued, the thread that appends the next one delivers them itself: a loop that cannot
// keep up slows the engines down, and the queue stays bounded.
//
// Threads: any.

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/request.h"

namespace rocmforge::server {

class Deliveries : public std::enable_shared_from_this<Deliveries> {
 public:
  static constexpr size_t kMaxWaiting = 16u << 10;
  using Post = std::function<void(std::function<void()>)>;  // runs it on the event loop, later

  static std::shared_ptr<Deliveries> make(Post post) {
    return std::shared_ptr<Deliveries>(new Deliveries(std::move(post)));
  }

  // What an engine is given in place of `receiver`, which is also destroyed after its last event and not by the engine.
  EventReceiver to(EventReceiver receiver);
  // The event loop has ended: what waits is delivered here, and what comes from now on by those who bring it.
  void close();

 private:
  struct Delivery {
    std::shared_ptr<EventReceiver> receiver;
    RequestEvent event;
  };

  explicit Deliveries(Post post) : post_(std::move(post)) {}
  void push(Delivery delivery);
  bool wake_loop() noexcept;  // false: it has ended, or there is no memory to wake it with
  void deliver();

  std::mutex delivering_;  // held while receivers are called: one at a time, in order
  std::vector<Delivery> taken_;
  std::mutex mutex_;  // guards these two; never held while the loop is woken, which would only wait for it
  std::vector<Delivery> waiting_;
  bool is_posted_ = false;
  std::mutex posting_;  // guards what follows, also while it is called: after close() the loop may be gone
  Post post_;           // empty: closed
};

}  // namespace rocmforge::server
