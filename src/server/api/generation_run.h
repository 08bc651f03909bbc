#pragma once
// One answer being generated: its choices submitted, their events turned into chunks of a stream or gathered into one
// object. How chunks and objects look is the Shape's business:
//
//   bool is_stream() const;
//   std::string first(uint32_t choice);                                 // events that open a choice
//   std::string token(uint32_t choice, const TokenEvent& event);        // events of one token
//   std::string last(uint32_t choice, const ChoiceSoFar& so_far, const FinishEvent& event);
//   std::string end(const RequestUsage& total);                         // events that close the stream
//   std::string whole(std::span<const ChoiceSoFar>, const RequestUsage& total);
//   ResponseHead stream_head();                                         // if it is not event_stream_head()
//   std::string failure(const ApiError& error);                         // if a failing stream does not end as OpenAI's
//
// Threads: start() and whole() on workers; events on the event loop, one at a time; cancel() on any. Chunks wait in
// `held_` until every choice was accepted: a stream that has begun can no longer be answered with a status.

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/api/answer_size.h"
#include "server/api/call.h"
#include "server/api/events.h"

namespace rocmforge::server {

// What a choice has become so far.
struct ChoiceSoFar {
  std::string text;
  std::vector<TokenId> tokens;
  std::vector<TokenLogprobs> logprobs;              // one per token when asked for
  std::vector<TokenLogprobs> prompt_logprobs = {};  // of the prompt's tokens from the second on, when asked for
  FinishReason reason = FinishReason::stop;
  std::optional<uint32_t> stopped_by = {};  // which stop string
  bool is_finished = false;
};

template <class Shape>
class GenerationRun : public std::enable_shared_from_this<GenerationRun<Shape>> {
 public:
  // `n_per_prompt` requests in a row have the same prompt, which counts once.
  static void start(Call call, ModelRef model, std::string id, Shape shape, std::vector<GenerationRequest> requests,
                    uint32_t n_per_prompt) {
    std::shared_ptr<GenerationRun> run(new GenerationRun(std::move(call), std::move(model), std::move(id),
                                                         std::move(shape), requests.size(), n_per_prompt));
    if (!run->call_.attempt([&] { run->submit(std::move(requests)); })) run->abandon();
  }

  // An engine that had no memory left may have dropped it.
  ~GenerationRun() {
    if (!is_over_) call_.give_up(std::bad_alloc());
  }

 private:
  GenerationRun(Call call, ModelRef model, std::string id, Shape shape, size_t n_choices, uint32_t n_per_prompt)
      : call_(std::move(call)),
        id_(std::move(id)),
        shape_(std::move(shape)),
        n_per_prompt_(n_per_prompt),
        metrics_(call_.shared->metrics.model(model->name)),
        model_(std::move(model)),
        choices_(n_choices),
        last_token_(n_choices, call_.arrived),
        kept_(call_.shared->answers) {}

  void submit(std::vector<GenerationRequest> requests) {
    const ModelRef model = model_;
    call_.record->note([&](RequestRecord::Facts& facts) {
      facts.answer_id = id_;
      facts.n_prompt = 0;
      for (size_t i = 0; i < requests.size(); i += n_per_prompt_) *facts.n_prompt += requests[i].prompt.size();
    });
    if (!hold_answer(requests)) return;
    call_.shared->requests.add(id_,
                               {.model = model->name,
                                .owner = call_.client.owner,
                                .n_prompt_tokens = static_cast<uint32_t>(requests[0].prompt.size())},
                               [weak = this->weak_from_this()] {
                                 if (const auto run = weak.lock()) run->cancel();
                               });
    for (uint32_t i = 0; i < choices_.size(); i++) {
      const auto receive = [self = this->shared_from_this(), i](RequestEvent&& event) {
        self->receive(i, std::move(event));
      };
      const Result<RequestId> accepted = model->generate(std::move(requests[i]), receive);
      if (!accepted.ok()) return refuse(ApiError::from(accepted.error()));
      const std::lock_guard lock(mutex_);
      ids_.push_back(*accepted);
    }
    open();
    // On a worker: the exchange may be cancelled by our own write, with the mutex held.
    call_.exchange->on_cancel([weak = this->weak_from_this(), shared = call_.shared] {
      shared->post_work([weak] {
        if (const auto run = weak.lock()) run->cancel();
      });
    });
  }

  // An answer in one piece is held until it is sent. False: refused, and nobody hears of it.
  bool hold_answer(std::span<const GenerationRequest> requests) {
    if (shape_.is_stream()) return true;
    n_held_bytes_ = expected_answer_bytes(requests, model_->n_context);
    is_over_ = !call_.hold_answer(
        n_held_bytes_, "max_tokens",
        "Ask for fewer tokens ('max_tokens'), choices or logprobs, or for a stream, which has no such limit.");
    return !is_over_;
  }

  // One choice was not accepted: the others are ended, and nobody hears of them.
  void refuse(const ApiError& error) {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    cancel();
    call_.refuse(error);
    call_.shared->requests.remove(id_);  // nobody has heard of it
  }

  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    if (shape_.is_stream()) {
      call_.start_stream(stream_head());
      for (uint32_t i = 0; i < choices_.size(); i++) write(shape_.first(i));
    }
    for (auto& [choice, event] : std::exchange(held_, {})) handle(choice, std::move(event));
  }

  void cancel() {
    std::unique_lock lock(mutex_);
    const ModelRef model = model_;
    const std::vector<RequestId> ids = ids_;
    lock.unlock();
    if (!model) return;
    for (const RequestId id : ids) model->cancel(id);
  }

  void receive(uint32_t choice, RequestEvent&& event) {
    const bool is_well = call_.attempt([&] {
      const std::lock_guard lock(mutex_);
      if (is_open_) {
        handle(choice, std::move(event));
      } else if (!is_over_) {
        held_.emplace_back(choice, std::move(event));
      }
    });
    if (!is_well) abandon();
  }

  // The exchange was given up.
  void abandon() {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(is_over_, true)) return;
      end_record("error");
    }
    cancel();
    const std::lock_guard lock(mutex_);
    release();
  }

  // All below with mutex_ held.
  void handle(uint32_t choice, RequestEvent&& event) {
    if (is_over_) return;
    if (const auto* start = std::get_if<StartEvent>(&event)) {
      metrics_.queued(start->queue_seconds);
      call_.record->note([&](RequestRecord::Facts& facts) {
        if (!facts.queue_seconds) facts.queue_seconds = start->queue_seconds;
      });
      call_.shared->requests.update(id_, [](RequestStatus& status) { status.is_running = true; });
    } else if (auto* token = std::get_if<TokenEvent>(&event)) {
      handle_token(choice, std::move(*token));
    } else {
      handle_finish(choice, std::get<FinishEvent>(event));
    }
  }

  void handle_token(uint32_t choice, TokenEvent&& event) {
    ChoiceSoFar& so_far = choices_[choice];
    const TimePoint now = call_.shared->options.clock();
    const double waited = seconds(now - std::exchange(last_token_[choice], now));
    so_far.tokens.empty() ? metrics_.first_token(waited) : metrics_.next_token(waited);
    if (n_generated_ == 0) {
      call_.record->note([&](RequestRecord::Facts& facts) { facts.first_token_seconds = waited; });
    }
    so_far.tokens.push_back(event.token);
    n_generated_++;
    call_.shared->requests.update(id_, [&](RequestStatus& status) { status.n_generated = n_generated_; });
    if (shape_.is_stream()) {
      if (keeps_stream() && !keep_token(event)) return;
      return write(shape_.token(choice, event));
    }
    n_answer_bytes_ += token_answer_bytes(*model_->tokenizer, event);
    if (!hold_longer_answer()) return;
    so_far.text += event.text;
    if (event.logprobs) so_far.logprobs.push_back(std::move(*event.logprobs));
  }

  void handle_finish(uint32_t choice, FinishEvent& event) {
    ChoiceSoFar& so_far = choices_[choice];
    so_far.is_finished = true;
    so_far.reason = event.reason;
    so_far.stopped_by = event.stopped_by;
    so_far.prompt_logprobs = std::move(event.prompt_logprobs);
    if (event.reason == FinishReason::error) return fail(*event.error);
    so_far.text += event.text;
    if (choice % n_per_prompt_ == 0) {
      total_.n_prompt += event.usage.n_prompt;
      total_.n_cached += event.usage.n_cached;
    }
    total_.n_generated += event.usage.n_generated;
    // Choices run side by side: the longest tells how long it took.
    total_.prefill_seconds = std::max(total_.prefill_seconds, event.usage.prefill_seconds);
    total_.decode_seconds = std::max(total_.decode_seconds, event.usage.decode_seconds);
    metrics_.finished(seconds(call_.shared->options.clock() - call_.arrived), event.usage.n_prompt,
                      event.usage.n_generated);
    if (shape_.is_stream()) write_end(shape_.last(choice, so_far, event));
    n_finished_++;
    if (n_finished_ < choices_.size()) return;
    is_over_ = true;
    end_record(std::string(finish_name(event.reason)));
    if (shape_.is_stream()) {
      write_end(shape_.end(total_));
      call_.exchange->finish();
      return release();
    }
    // With many logprobs it takes a while to be written.
    call_.shared->post_work([self = this->shared_from_this()] {
      const std::lock_guard lock(self->mutex_);
      if (self->call_.is_abandoned()) return self->release();
      self->call_.attempt([&] { self->call_.respond(200, self->shape_.whole(self->choices_, self->total_)); });
      self->release();
    });
  }

  // What a stream's last event says again is counted until then. False: there is no room for more, and the request has
  // failed.
  bool keep_token(const TokenEvent& event) {
    constexpr uint64_t kStep = 16u << 10;
    const uint64_t most = call_.shared->options.max_answer_bytes;
    n_answer_bytes_ += 2 * token_answer_bytes(*model_->tokenizer, event);
    if (n_answer_bytes_ <= std::min(most, kept_.bytes())) return true;
    if (n_answer_bytes_ > most) {
      fail(too_long());
    } else if (!kept_.resize(n_answer_bytes_ + kStep)) {
      fail(ApiError::unavailable("Too many large answers at once.", "answers_too_large", 1));
    }
    return !is_over_;
  }

  ApiError too_long() const {
    return {.status = 400,
            .message = fmt::format("The answer became longer than {} bytes. Ask for fewer tokens, choices or logprobs, "
                                   "or for a stream.",
                                   call_.shared->options.max_answer_bytes),
            .code = "answer_too_large"};
  }

  // Its tokens are longer than usual. False: there is no room for them, and the request has failed.
  bool hold_longer_answer() {
    const uint64_t most = call_.shared->options.max_answer_bytes;
    if (n_answer_bytes_ <= n_held_bytes_) return true;
    n_held_bytes_ = std::min(most, n_answer_bytes_ + n_answer_bytes_ / 8);
    const bool is_too_long = n_answer_bytes_ > most;
    if (!is_too_long && call_.exchange->resize_answer(n_held_bytes_)) return true;
    fail(is_too_long ? too_long() : ApiError::unavailable("Too many large answers at once.", "answers_too_large", 1));
    return false;
  }

  void fail(const Error& error) { fail(ApiError::from(error)); }
  // The request failed after it was accepted: with a status if nothing was sent, else as the stream's last event.
  void fail(const ApiError& said) {
    is_over_ = true;
    call_.record->note([&](RequestRecord::Facts& facts) { facts.error = said.message; });
    if (shape_.is_stream()) {
      write_end(failure(said));
      call_.exchange->finish();
    } else {
      call_.refuse(said);
    }
    end_record("error");
    for (const RequestId id : ids_) model_->cancel(id);
    release();
  }

  ResponseHead stream_head() {
    if constexpr (requires { shape_.stream_head(); }) return shape_.stream_head();
    return event_stream_head();
  }
  std::string failure(const ApiError& said) {
    if constexpr (requires { shape_.failure(said); }) return shape_.failure(said);
    return event_of(said.to_json()).append(kDoneEvent);
  }
  bool keeps_stream() const {
    if constexpr (requires { shape_.keeps_stream(); }) return shape_.keeps_stream();
    return false;
  }
  // The end of a stream may say the whole answer again: more than a client that reads well may leave unread.
  void write_end(std::string_view events) {
    if (keeps_stream()) call_.exchange->allow_unsent(events.size());
    write(events);
  }
  void write(std::string_view events) {
    if (!events.empty()) call_.exchange->write(events);
  }
  void end_record(std::string reason) {
    call_.record->note([&](RequestRecord::Facts& facts) {
      facts.finish_reason = reason;
      facts.n_cached = total_.n_cached;
      facts.n_generated = n_generated_;
    });
    call_.shared->requests.end(id_, std::move(reason), n_generated_);
  }
  // Should this be the last to hold the model, its end takes longer than an event loop has.
  void release() {
    call_.shared->post_work([model = std::move(model_)] {});
  }

  const Call call_;
  const std::string id_;
  Shape shape_;
  const uint32_t n_per_prompt_;
  ModelMetrics& metrics_;

  std::mutex mutex_;
  ModelRef model_;  // until the answer is complete
  std::vector<RequestId> ids_;
  std::vector<ChoiceSoFar> choices_;
  std::vector<TimePoint> last_token_;  // per choice; the arrival before the first
  std::vector<std::pair<uint32_t, RequestEvent>> held_;
  RequestUsage total_;
  uint64_t n_answer_bytes_ = 0, n_held_bytes_ = 0;  // of an answer in one piece: so far, and counted for it
  ByteHold kept_;                                   // of what a stream keeps
  uint32_t n_generated_ = 0;
  size_t n_finished_ = 0;
  bool is_open_ = false;
  bool is_over_ = false;  // answered: what comes now is nobody's business
};

}  // namespace rocmforge::server
