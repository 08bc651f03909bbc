#include "server/api/embedding_run.h"

#include <algorithm>
#include <new>
#include <utility>

namespace rocmforge::server {

EmbeddingRun::EmbeddingRun(Call call, ModelRef model, std::vector<std::vector<TokenId>> texts, Pooling pooling,
                           Write write)
    : call_(std::move(call)),
      texts_(std::move(texts)),
      pooling_(pooling),
      write_(std::move(write)),
      model_(std::move(model)),
      results_(texts_.size()) {}

EmbeddingRun::~EmbeddingRun() {
  if (!is_over_) call_.give_up(std::bad_alloc());
}

void EmbeddingRun::start() {
  call_.exchange->on_cancel([weak = weak_from_this(), shared = call_.shared] {
    shared->post_work([weak] {
      if (const auto run = weak.lock()) run->cancel();
    });
  });
  for (size_t i = 0; i < std::min(kMaxUnderWay, results_.size()); i++) submit_next();
}

void EmbeddingRun::submit_next() {
  std::unique_lock lock(mutex_);
  if (is_over_ || n_submitted_ == results_.size()) return;
  const size_t index = n_submitted_++;
  const ModelRef model = model_;
  lock.unlock();
  const auto receive = [self = shared_from_this(), index](RequestEvent&& event) {
    auto* last = std::get_if<FinishEvent>(&event);
    if (last && !self->call_.attempt([&] { self->finish(index, std::move(*last)); })) self->cancel();
  };
  const auto accepted = model->embed(
      {.tokens = std::move(texts_[index]), .pooling = pooling_, .client = ClientId(call_.client.number())}, receive);
  lock.lock();
  if (!accepted.ok()) return refuse(accepted.error());
  ids_.push_back(*accepted);
  if (is_over_) model->cancel(*accepted);
}

void EmbeddingRun::finish(size_t index, FinishEvent&& event) {
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    if (event.reason == FinishReason::error) return refuse(*event.error);
    results_[index] = std::move(event.embedding);
    n_finished_++;
  }
  call_.shared->post_work([self = shared_from_this()] {
    if (!self->call_.attempt([&] { self->go_on(); })) self->cancel();
  });
}

// On a worker: many numbers take a while to be written.
void EmbeddingRun::go_on() {
  {
    const std::lock_guard lock(mutex_);
    if (n_finished_ == results_.size() && !std::exchange(is_over_, true)) {
      call_.respond(200, write_(std::move(results_)));
      return release();
    }
  }
  submit_next();
}

// With mutex_ held.
void EmbeddingRun::refuse(const Error& error) {
  if (std::exchange(is_over_, true)) return;
  call_.refuse(ApiError::from(error));
  for (const RequestId id : ids_) model_->cancel(id);
  release();
}

void EmbeddingRun::release() {
  call_.shared->post_work([model = std::move(model_)] {});
}

void EmbeddingRun::cancel() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(is_over_, true)) return;
  for (const RequestId id : ids_) model_->cancel(id);
  release();
}

}  // namespace rocmforge::server
