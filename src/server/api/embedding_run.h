#pragma once
// The texts of one request on their way through the engine, and the answer when all are back.
//
// Threads: start() on a worker; events come on the event loop, and the answer is written on a worker.

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/api/call.h"

namespace rocmforge::server {

class EmbeddingRun : public std::enable_shared_from_this<EmbeddingRun> {
 public:
  // Of one request's texts, at once: enough to fill the engine's steps, and yet the queue has room for others.
  static constexpr size_t kMaxUnderWay = 64;

  // Writes the answer's body from the results, in the order of the texts.
  using Write = std::function<std::string(std::vector<std::vector<float>> results)>;

  EmbeddingRun(Call call, ModelRef model, std::vector<std::vector<TokenId>> texts, Pooling pooling, Write write);
  // An engine that had no memory left may have dropped it.
  ~EmbeddingRun();

  void start();

 private:
  void submit_next();
  void finish(size_t index, FinishEvent&& event);
  void go_on();
  void refuse(const Error& error);
  void release();
  void cancel();

  const Call call_;
  std::vector<std::vector<TokenId>> texts_;
  Pooling pooling_;
  Write write_;
  std::mutex mutex_;
  ModelRef model_;  // until the answer is complete
  std::vector<std::vector<float>> results_;
  std::vector<RequestId> ids_;
  size_t n_submitted_ = 0, n_finished_ = 0;
  bool is_over_ = false;
};

}  // namespace rocmforge::server
