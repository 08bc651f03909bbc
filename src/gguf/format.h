#pragma once
// What reader and writer share: the format's constants, and the rules for names and shapes. A rule's Error carries its
// code and the fact; the caller adds the name of the object and its position.

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gguf/header.h"

namespace rocmforge::gguf {

inline constexpr std::string_view kMagic = "GGUF";
inline constexpr uint32_t kOldestVersion = 2;
inline constexpr uint32_t kVersion = 3;
inline constexpr uint32_t kMaxDims = 4;

inline constexpr std::string_view kAlignmentKey = "general.alignment";
inline constexpr uint32_t kDefaultAlignment = 32;
inline constexpr uint32_t kMaxAlignment = 1u << 16;
inline bool is_valid_alignment(uint64_t n) {
  return std::has_single_bit(n) && n <= kMaxAlignment;
}

// The keys of a split model. Every shard carries all three.
inline constexpr std::string_view kSplitPrefix = "split.";
inline constexpr std::string_view kSplitNumberKey = "split.no";  // from 0
inline constexpr std::string_view kSplitCountKey = "split.count";
inline constexpr std::string_view kSplitTensorsKey = "split.tensors.count";  // of all shards together

// The bytes of the smallest key (length, one letter, type, one-byte value) and the smallest tensor entry (length, one
// letter, dimension count, one dimension, type, offset). A count is refused if that many of these exceed the file.
inline constexpr uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;
inline constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

// gguf_bad_key, gguf_bad_tensor_name
Result<void> check_key(std::string_view key, const Limits& limits);
Result<void> check_tensor_name(std::string_view name, const Limits& limits);

// Fills n_elements and n_bytes from dtype and dims, or: gguf_bad_dimension, gguf_ragged_row, gguf_tensor_too_large.
Result<void> measure(TensorInfo& info);

// A name from a file as a message may show it: in quotes, control characters escaped, cut after 80 bytes.
std::string in_quotes(std::string_view text);

}  // namespace rocmforge::gguf
