#pragma once
// Models split into several files: the keys of a shard, and the names of the files.
//
//   NAME-00001-of-00003.gguf   split.no 0   all the metadata, the first tensors
//   NAME-00002-of-00003.gguf   split.no 1   the split keys, more tensors
//   NAME-00003-of-00003.gguf   split.no 2   the split keys, the rest

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gguf/header.h"

namespace rocmforge::gguf {

struct Split {
  uint32_t number = 0;  // from 0
  uint32_t count = 1;
  std::optional<uint64_t> n_tensors;  // of all shards together; always there when count > 1
  friend bool operator==(const Split&, const Split&) = default;
};

// The split keys of the metadata; a file without them is shard 0 of 1.
// Errors: gguf_split_count, gguf_split_number, gguf_too_many_tensors, gguf_key_missing or gguf_key_type, naming the
// key.
Result<Split> read_split(const Metadata& metadata, const Limits& limits);

// "NAME" of "NAME-00002-of-00003.gguf" when the path ends in this split's own suffix.
std::optional<std::string_view> split_stem(std::string_view path, const Split& split);

// The file of shard `number` (from 0).
std::string shard_path(std::string_view stem, uint32_t number, uint32_t count);

}  // namespace rocmforge::gguf
