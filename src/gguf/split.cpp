#include "gguf/split.h"

#include <fmt/core.h>

#include "gguf/format.h"

namespace rocmforge::gguf {
namespace {

std::string suffix(uint32_t number, uint32_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number + 1, count);
}

// The key's number, when it lies in first..last; outside of it the error has the given code.
Result<uint64_t> read_number(const Metadata& metadata, std::string_view key, uint64_t first, uint64_t last,
                             ErrorCode out_of_range) {
  auto number = metadata.u64(key);
  if (number.ok() ? *number >= first && *number <= last : number.error().code != ErrorCode::gguf_key_range) {
    return number;
  }
  const std::string text = number.ok() ? std::to_string(*number) : "a negative number";
  return Error{out_of_range, fmt::format("gguf: key '{}' at byte {}: {} is not {} to {}", key,
                                         metadata.offset_of(*metadata.find(key)), text, first, last)};
}

}  // namespace

Result<Split> read_split(const Metadata& metadata, const Limits& limits) {
  Split split;
  if (!metadata.has(kSplitCountKey)) return split;
  const auto count = TRY(read_number(metadata, kSplitCountKey, 1, limits.max_shards, ErrorCode::gguf_split_count));
  split.count = static_cast<uint32_t>(count);
  const bool alone = count == 1;
  if (!alone || metadata.has(kSplitNumberKey)) {
    const auto number = TRY(read_number(metadata, kSplitNumberKey, 0, count - 1, ErrorCode::gguf_split_number));
    split.number = static_cast<uint32_t>(number);
  }
  if (!alone || metadata.has(kSplitTensorsKey)) {
    split.n_tensors =
        TRY(read_number(metadata, kSplitTensorsKey, 0, limits.max_tensors, ErrorCode::gguf_too_many_tensors));
  }
  return split;
}

std::optional<std::string_view> split_stem(std::string_view path, const Split& split) {
  const std::string end = suffix(split.number, split.count);
  if (!path.ends_with(end)) return std::nullopt;
  return path.substr(0, path.size() - end.size());
}

std::string shard_path(std::string_view stem, uint32_t number, uint32_t count) {
  return std::string(stem) + suffix(number, count);
}

}  // namespace rocmforge::gguf
