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

  // Returns a receiver for the engine that queues events for `receiver`. `receiver` is destroyed after its last event,
  // never by the engine.
  EventReceiver to(EventReceiver receiver);
  // Call it when the event loop has ended: delivers queued events; later events are delivered by the calling thread.
  void close();

 private:
  struct Delivery {
    std::shared_ptr<EventReceiver> receiver;
    RequestEvent event;
  };

  explicit Deliveries(Post post) : post_(std::move(post)) {}
  void push(Delivery delivery);
  bool wake_loop() noexcept;  // false: the loop has ended, or memory ran out
  void deliver();

  std::mutex delivering_;  // held while receivers are called: one at a time, in order
  std::vector<Delivery> taken_;
  std::mutex mutex_;  // guards the next two members; not held while the loop is woken, which would wait for it
  std::vector<Delivery> waiting_;
  bool is_posted_ = false;
  std::mutex posting_;  // guards post_, also during its call: after close() the loop may be destroyed
  Post post_;           // empty: closed
};

}  // namespace rocmforge::server
