#pragma once
// Events of engines on their way to those who make answers of them. An engine's thread only leaves them here; the event
// loop takes what is there, all at once and in order, and calls the receivers. So no step waits for tokens to become
// JSON, and the loop is woken once for the tokens of a step.
//
// Where the loop has fallen behind by kMaxWaiting events, whoever brings more delivers them himself: a loop that cannot
// keep up slows the engines down, and nothing piles up.
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
  void deliver();

  std::mutex delivering_;  // held while receivers are called: one at a time, in order
  std::vector<Delivery> taken_;
  std::mutex mutex_;  // guards what follows
  std::vector<Delivery> waiting_;
  Post post_;  // empty: closed
  bool is_posted_ = false;
};

}  // namespace rocmforge::server
