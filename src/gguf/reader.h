#pragma once
// Opens a GGUF file (or the shards of a split one): magic, metadata, tensor index, and nothing of the tensors' data.
// docs/gguf.md draws the bytes. Every length and offset in the file is checked before it is used.
//
// Threads: a GgufFile is immutable; reading tensor bytes through file() is safe from many threads.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "gguf/metadata.h"
#include "tensor/dtype.h"

namespace rocmforge::gguf {

// What a file may ask of us, checked before anything is allocated for it.
struct Limits {
  uint64_t max_keys = 65'536;
  uint64_t max_tensors = 65'536;
  uint64_t max_key_bytes = 65'535;
  uint64_t max_tensor_name_bytes = 63;
  uint64_t max_string_bytes = 16u << 20;
  uint64_t max_array_elements = 16u << 20;
  uint64_t max_metadata_bytes = 512u << 20;
  uint32_t max_shards = 1'024;
};

struct TensorInfo {
  std::string_view name;             // owned by the GgufFile
  DType dtype = DType::f32;
  uint32_t n_dims = 1;
  std::array<uint64_t, 4> dims{};    // dims[0] is the row length (contiguous); unused ones are 1
  uint32_t shard = 0;
  uint64_t offset = 0;               // of the first byte, from the start of the shard's file
  uint64_t n_bytes = 0;
  uint64_t n_elements = 0;
};

class GgufFile {
 public:
  // `path` is a file, or the first shard of a split model (NAME-00001-of-00003.gguf): the others are found beside it.
  static Result<GgufFile> open(const std::string& path, const Limits& limits = {}, const FileCalls* calls = nullptr);

  const Metadata& metadata() const { return metadata_; }  // of the first shard
  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  std::span<const TensorInfo> tensors() const { return tensors_; }  // all shards, in file order
  const TensorInfo* find_tensor(std::string_view name) const;       // null when absent
  Result<const TensorInfo*> tensor(std::string_view name) const;    // gguf_tensor_missing

  size_t n_shards() const { return shards_.size(); }
  const File& file(uint32_t shard) const { return shards_[shard]; }
  uint64_t header_bytes() const { return header_bytes_; }  // read and parsed, all shards together
  uint64_t weight_bytes() const;                           // sum of the tensors' n_bytes

 private:
  std::vector<File> shards_;
  Metadata metadata_;
  std::vector<std::shared_ptr<const std::vector<std::byte>>> headers_;  // names point into these
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, size_t> tensor_index_;
  uint32_t version_ = 0;
  uint64_t alignment_ = 32;
  uint64_t header_bytes_ = 0;
};

}  // namespace rocmforge::gguf
