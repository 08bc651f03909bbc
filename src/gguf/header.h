#pragma once
// The front of a GGUF file: magic, metadata, tensor index. parse_header reads it forward, in pieces, and trusts
// nothing: every count, length, type, shape and offset is checked before it is used and before memory is taken for it.
// docs/gguf.md draws the bytes and lists the errors. Each error names the field and the byte it stands at.
//
// Threads: parse_header is a pure function of its source; a Header is immutable.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/metadata.h"
#include "tensor/dtype.h"

namespace rocmforge::gguf {

// Limits on a file, checked before memory is allocated for it.
struct Limits {
  uint64_t max_keys = 65'536;
  uint64_t max_tensors = 65'536;  // of all shards together
  uint64_t max_key_bytes = 65'535;
  uint64_t max_tensor_name_bytes = 63;
  uint64_t max_string_bytes = 16u << 20;
  uint64_t max_array_elements = 16u << 20;
  uint64_t max_metadata_bytes = 512u << 20;  // everything before the tensors' data, of all shards together
  uint32_t max_shards = 1'024;
};

struct TensorInfo {
  std::string_view name;  // owned by the header's bytes
  DType dtype = DType::f32;
  uint32_t n_dims = 1;
  std::array<uint64_t, 4> dims{1, 1, 1, 1};  // dims[0] is the row length (contiguous); unused ones are 1
  uint32_t shard = 0;
  uint64_t offset = 0;  // of the first byte, from the start of the shard's file
  uint64_t n_bytes = 0;
  uint64_t n_elements = 0;
};

// The source of the bytes: a file, or memory in a test.
struct HeaderSource {
  std::string name;      // what messages call it
  uint64_t n_bytes = 0;  // of the whole file
  // Fills `to` from `offset`, or fails. Only asked for bytes inside n_bytes.
  std::function<Result<void>(std::span<std::byte> to, uint64_t offset)> read;
};

// A file in memory: `bytes`, and zeros up to n_bytes. REQUIRES: `bytes` stays as long as the source
HeaderSource memory_source(std::span<const std::byte> bytes, uint64_t n_bytes, std::string name);

struct Header {
  uint32_t version = 0;
  uint64_t alignment = 0;
  std::shared_ptr<const std::vector<std::byte>> bytes;  // exactly the header; metadata and names point into it
  Metadata metadata;
  std::vector<TensorInfo> tensors;  // in file order, shard 0
};

// Reads the first 64 KiB and then 256 KiB at a time, as far as the header reaches.
Result<Header> parse_header(const HeaderSource& source, const Limits& limits = {});

}  // namespace rocmforge::gguf
