#pragma once
// For tests: GGUF files built byte by byte, with any field wrong. Each integer field is recorded, so that a test can
// change every one of them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gguf/metadata.h"
#include "tensor/dtype.h"

namespace rocmforge::gguf::testing {

// Bytes, and the positions of the integers among them.
class RawBytes {
 public:
  struct Field {
    std::string name;
    size_t offset;
    size_t n_bytes;
  };

  template <class T>
  RawBytes& integer(std::string name, T value) {
    return field(std::move(name), {reinterpret_cast<const char*>(&value), sizeof value});
  }
  RawBytes& field(std::string name, std::string_view bytes) {
    fields_.push_back({std::move(name), bytes_.size(), bytes.size()});
    return text(bytes);
  }
  RawBytes& text(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  RawBytes& append(const RawBytes& other);

  const std::string& bytes() const { return bytes_; }
  const std::vector<Field>& fields() const { return fields_; }

 private:
  std::string bytes_;
  std::vector<Field> fields_;
};

// A value's bytes as they follow its type.
struct RawValue {
  uint32_t type = 0;
  RawBytes bytes;
};

template <class T>
RawValue raw_number(ValueType type, T value) {
  return {static_cast<uint32_t>(type), RawBytes().integer("value", value)};
}
RawValue raw_u32(uint32_t value);
RawValue raw_string(std::string_view text, std::optional<uint64_t> said_length = {});
RawValue raw_array(uint32_t element_type, uint64_t said_length, std::string_view elements);
RawValue raw_strings(const std::vector<std::string>& texts, std::optional<uint64_t> said_length = {});

// In the following structs an optional overrides a field of the file, to make it wrong.
struct RawKey {
  std::string name;
  RawValue value;
  std::optional<uint64_t> said_name_length = {};
};

struct RawTensor {
  std::string name;
  std::vector<uint64_t> dims;
  uint32_t type = 0;
  uint64_t offset = 0;
  std::optional<uint64_t> said_name_length = {};
  std::optional<uint32_t> said_n_dims = {};
};

struct RawGguf {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> said_n_tensors = {};
  std::optional<uint64_t> said_n_keys = {};
  std::vector<RawKey> keys = {};
  std::vector<RawTensor> tensors = {};
  uint64_t alignment = 32;      // the data begins at a multiple of it
  uint64_t n_data_bytes = 256;  // zeros after the header and its padding

  RawBytes header() const;
  std::string file() const;
};

// A valid file with two keys, and two tensors of 64 and 128 bytes.
RawGguf small_gguf();

// A valid file with one tensor of this type, one block long.
RawGguf gguf_of_type(DType dtype);

// Five valid files that together have every value type, every tensor type, both versions, gaps and splits.
std::vector<std::pair<std::string, RawGguf>> seed_files();

}  // namespace rocmforge::gguf::testing
