#pragma once
// Puts a recipe together in the order in which the reference's models were: the order decides which weight gets which
// random numbers.

#include <algorithm>
#include <functional>
#include <initializer_list>

#include "recipe.h"

namespace rocmforge::golden_models {

enum class QkNorm : uint8_t { none, per_head, per_row, heads };

struct AttentionParts {
  bool bias = false, output_bias = false, fused = false;
  QkNorm qk_norm = QkNorm::none;
  uint32_t head_size = 0, kv_heads = 0;  // 0: the model's
};
struct FeedForwardParts {
  bool gate = true, bias = false;
  uint32_t up_times = 1;  // 2: gate and up in one
};
struct ExpertParts {
  uint32_t n = 8, ff = 0;  // 0: Dims::expert_ff
  bool bias = false, choice_bias = false, shared = false, shared_gate = false;
  uint32_t shared_ff = 0;  // 0: as one expert's
};

class Builder {
 public:
  Builder(std::string architecture, const Dims& dims, uint32_t n_layers);

  // A key of the architecture's; the value replaces what the key had.
  Builder& set(const std::string& key, Value value);
  Builder& drop(const std::string& key);
  Builder& layer_norm();  // its epsilon, instead of that of RMS norms
  Builder& keys(uint32_t head_size = 0);
  Builder& yarn(uint32_t original_context);
  Builder& tensor(const std::string& name, std::vector<uint64_t> dims);

  Builder& head(bool tied = false, bool bias = false);
  Builder& layers(const std::function<void(Builder&, uint32_t)>& make);

  // Within a layer:
  Builder& part(const std::string& name, std::vector<uint64_t> dims);
  Builder& norms(std::initializer_list<const char*> names, bool bias = false);
  Builder& attention(const AttentionParts& parts = {});
  Builder& feed_forward(const FeedForwardParts& parts = {});
  Builder& experts(const ExpertParts& parts = {});
  Builder& next_token();

  const Dims dims;
  Recipe recipe;

 private:
  uint32_t n_layers_;
  uint32_t layer_ = 0;
};

}  // namespace rocmforge::golden_models
