#pragma once
// Prompts continued one after another on one plan, by the engine's own steps without its thread: what a request may
// ask for and how its tokens are chosen is the same here and in a server.
//
// The keys and values of whole pages stay: a prompt that begins as an earlier one or its answer did is evaluated from
// the first page that differs.
//
// Threads: one at a time.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "engine/engine_core.h"
#include "engine/finish_reason.h"
#include "engine/sampler.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

struct GenerateOptions {
  SamplingOptions sampling;
  uint32_t max_tokens = 128;
  bool ignore_end_of_text = false;                  // go on after an end-of-text token
  std::vector<std::string> stop;                    // the text ends before the first of these
  std::optional<ConstraintChoice> constraint = {};  // what the text must be
  // Tokens that the text shows between 0xFF and 0xFE (tokenizer/stream_decoder.h).
  std::shared_ptr<const std::vector<TokenId>> marked_tokens = {};
  // Asked between tokens, and between the layers of long passes while weights are read; true ends the generation.
  std::function<bool()> should_stop = {};
};

struct Generated {
  std::vector<TokenId> tokens;          // end-of-text not included
  std::vector<TokenLogprobs> logprobs;  // of each token, when they are wanted
  FinishReason reason = FinishReason::length;
  uint32_t n_prompt_tokens = 0;
  uint32_t n_cached = 0;      // of these, not evaluated again
  double prompt_seconds = 0;  // until the first token was chosen
  double decode_seconds = 0;  // for the others
  double decode_rate() const { return tokens.size() > 1 ? static_cast<double>(tokens.size() - 1) / decode_seconds : 0; }
};

// Receives whole UTF-8 characters as they are certain; false ends the generation.
using TextReceiver = std::function<bool(std::string_view text)>;

struct GeneratorOptions {
  uint32_t n_context = 0;  // positions of prompt and answer; 0: what the plan allows
  KvType kv_type = KvType::f16;
  Clock clock = system_clock();
};

class Generator {
 public:
  // Allocates nothing yet: the first generate() reserves slots and pages.
  // out_of_memory: more than the budget that the plan was made for.
  static Result<std::unique_ptr<Generator>> create(const ExecutionPlan& plan, const GeneratorOptions& options = {});
  // The memory that such a generator takes in use.
  static Result<MemoryBill> memory_bill(const ExecutionPlan& plan, const GeneratorOptions& options = {});
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  uint32_t n_context() const { return n_context_; }
  CoreStats stats() const { return core_.stats(); }

  // An answer that `receive` or `should_stop` ended is what was received so far.
  // limit_exceeded: the prompt and one token of an answer do not fit the context. Errors of a step: the next call may
  // succeed, unless the device or the model's file is gone.
  Result<Generated> generate(const tokenizer::Tokenizer& tokenizer, std::span<const TokenId> prompt,
                             const GenerateOptions& options, const TextReceiver& receive);

 private:
  Generator(const ExecutionPlan& plan, const SchedulerOptions& sizes, const GeneratorOptions& options);

  const ExecutionPlan& plan_;
  uint32_t n_context_;
  Clock clock_;
  const std::function<bool()>* should_stop_ = nullptr;  // of the call that runs
  uint64_t last_id_ = 0;
  EngineCore core_;
};

}  // namespace rocmforge
