#pragma once
// The metadata keys of one architecture, read with checks. Every key that is read is recorded, so that refuse_unread
// can name a key that the file has and this build does not use.

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/metadata.h"
#include "model/spec.h"

namespace rocmforge {

Error bad_key(std::string_view key, std::string_view fact);

// "block_count" is read as "llama.block_count".
class Keys {
 public:
  Keys(const gguf::Metadata& metadata, std::string_view architecture);
  // The same file's keys without a prefix.
  Keys unprefixed() const;

  std::string full(std::string_view key) const { return prefix_ + std::string(key); }
  // The value, or null. This function and those below record the key as read.
  const gguf::Value* find(std::string_view key) const;
  bool is_array(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // A required count in [1, most]. Some files give one value per layer; then all of them must be equal.
  // count_or: `fallback` if the key is absent.
  Result<uint32_t> count(std::string_view key, uint32_t most) const;
  Result<uint32_t> count_or(std::string_view key, uint32_t fallback, uint32_t most) const;

  // n_layers values from 0 to `most`, from an array of at least n_layers values or from a single number for all layers.
  Result<std::vector<uint32_t>> per_layer(std::string_view key, uint32_t n_layers, uint32_t most) const;
  // The same for floats, which must be finite.
  Result<std::vector<float>> numbers_per_layer(std::string_view key, uint32_t n_layers) const;

  // A number that must be finite and positive.
  Result<float> positive_or(std::string_view key, float fallback) const;
  Result<float> positive(std::string_view key) const;
  // The same, or 0 for "none".
  Result<float> positive_or_none(std::string_view key) const;

  Result<std::string_view> string_or(std::string_view key, std::string_view fallback) const;
  Result<bool> boolean_or(std::string_view key, bool fallback) const;
  Result<uint32_t> u32_or(std::string_view key, uint32_t fallback) const;
  Result<std::vector<int32_t>> i32_array(std::string_view key) const;  // of integers or booleans

  // The guard: model_unsupported, naming the key, if the file has a key that changes the computation and that nothing
  // has read. Values without effect (0, a scale of 1, a window over the whole context) are accepted.
  Result<void> refuse_unread(const ModelSpec& spec) const;

 private:
  Result<uint32_t> per_layer_or_one(const std::string& name) const;

  const gguf::Metadata& metadata_;
  std::string prefix_;
  mutable std::set<std::string, std::less<>> read_;
};

}  // namespace rocmforge
