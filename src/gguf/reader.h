#pragma once
// Opens a GGUF file, or the shards of a split one. Reads headers only, no tensor data (see gguf/header.h).
//
// Threads: a GgufFile is immutable; reading tensor bytes through file() is safe from many threads.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "gguf/header.h"
#include "gguf/metadata.h"
#include "gguf/name_index.h"
#include "gguf/overrides.h"

namespace rocmforge::gguf {

class GgufFile {
 public:
  // `path` is a file, or the first shard of a split model (NAME-00001-of-00003.gguf): the others are found beside it.
  static Result<GgufFile> open(const std::string& path, const Limits& limits = {}, const FileCalls* calls = nullptr);

  // Changes what metadata() gives: for a file that nobody reads yet. Errors: those of with_overrides.
  Result<void> override_metadata(std::span<const Override> overrides);

  const Metadata& metadata() const { return metadata_; }            // of the first shard
  uint32_t version() const { return version_; }                     // of the first shard
  uint64_t alignment() const { return alignment_; }                 // of the first shard
  std::span<const TensorInfo> tensors() const { return tensors_; }  // all shards, in file order
  const TensorInfo* find_tensor(std::string_view name) const;       // null when absent
  Result<const TensorInfo*> tensor(std::string_view name) const;    // gguf_tensor_missing

  size_t n_shards() const { return shards_.size(); }
  const File& file(uint32_t shard) const { return shards_[shard]; }
  uint64_t header_bytes() const { return header_bytes_; }  // all shards together
  uint64_t weight_bytes() const;                           // sum of the tensors' n_bytes

 private:
  GgufFile() = default;
  void add_shard(File file, Header header);
  Result<void> index_tensors();

  std::vector<File> shards_;
  std::vector<std::shared_ptr<const std::vector<std::byte>>> headers_;  // names point into these
  Metadata metadata_;
  std::vector<TensorInfo> tensors_;
  NameIndex tensor_index_;
  uint32_t version_ = 0;
  uint64_t alignment_ = 0;
  uint64_t header_bytes_ = 0;
};

}  // namespace rocmforge::gguf
