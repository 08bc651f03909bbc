#pragma once
// Writes GGUF files, version 3. First the header is put together, then the tensors' data streams in, in order:
//
//   HeaderBuilder header;
//   header.copy(model.metadata());
//   header.set_u32("general.file_type", 15);
//   header.add_tensor("output.weight", DType::q6_k, {4096, 32000});
//   GgufWriter writer = TRY(GgufWriter::create(path, header));
//   TRY(writer.write(piece));  // ... until every tensor is complete
//   TRY(writer.finish());      // the file appears at `path` only now
//
// Threads: one at a time.

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/file_writer.h"
#include "base/result.h"
#include "gguf/header.h"
#include "gguf/metadata.h"

namespace rocmforge::gguf {

// The value type of a C++ type. Only exact types have one: no value is narrowed.
template <class T>
consteval ValueType value_type_of() {
  if constexpr (std::same_as<T, uint8_t>) return ValueType::u8;
  if constexpr (std::same_as<T, int8_t>) return ValueType::i8;
  if constexpr (std::same_as<T, uint16_t>) return ValueType::u16;
  if constexpr (std::same_as<T, int16_t>) return ValueType::i16;
  if constexpr (std::same_as<T, uint32_t>) return ValueType::u32;
  if constexpr (std::same_as<T, int32_t>) return ValueType::i32;
  if constexpr (std::same_as<T, float>) return ValueType::f32;
  if constexpr (std::same_as<T, bool>) return ValueType::boolean;
  if constexpr (std::same_as<T, uint64_t>) return ValueType::u64;
  if constexpr (std::same_as<T, int64_t>) return ValueType::i64;
  if constexpr (std::same_as<T, double>) return ValueType::f64;
}

// Setting a key that exists replaces its value and keeps its position. encode() reports all errors of a header (an
// empty key, two tensors of one name...).
class HeaderBuilder {
 public:
  void set_u8(std::string_view key, uint8_t value) { set_number(key, value); }
  void set_i8(std::string_view key, int8_t value) { set_number(key, value); }
  void set_u16(std::string_view key, uint16_t value) { set_number(key, value); }
  void set_i16(std::string_view key, int16_t value) { set_number(key, value); }
  void set_u32(std::string_view key, uint32_t value) { set_number(key, value); }
  void set_i32(std::string_view key, int32_t value) { set_number(key, value); }
  void set_f32(std::string_view key, float value) { set_number(key, value); }
  void set_u64(std::string_view key, uint64_t value) { set_number(key, value); }
  void set_i64(std::string_view key, int64_t value) { set_number(key, value); }
  void set_f64(std::string_view key, double value) { set_number(key, value); }
  void set_bool(std::string_view key, bool value) { set_number(key, value); }
  void set_string(std::string_view key, std::string_view text) { set(key, Value(ValueType::string, as_bytes(text))); }

  template <class T>
  void set_array(std::string_view key, std::span<const T> numbers) {
    static_assert(sizeof(bool) == 1);
    set(key, Value(ValueType::array, value_type_of<T>(), numbers.size(), std::as_bytes(numbers)));
  }
  // Of any range of texts.
  template <class Texts>
  void set_strings(std::string_view key, const Texts& texts) {
    std::string bytes;
    uint64_t n = 0;
    for (const std::string_view text : texts) {
      append_string(bytes, text);
      n++;
    }
    set(key, Value(ValueType::array, ValueType::string, n, as_bytes(bytes)));
  }

  // Copies any value, or all values except the split keys: the output is a single file.
  void set(std::string_view key, const Value& value);
  void copy(const Metadata& metadata);

  // The data lies in the order of these calls. The alignment is that of general.alignment, 32 when it is not set.
  void add_tensor(std::string_view name, DType dtype, std::span<const uint64_t> dims);
  void add_tensor(std::string_view name, DType dtype, std::initializer_list<uint64_t> dims) {
    add_tensor(name, dtype, std::span(dims.begin(), dims.size()));
  }

  struct Encoded {
    std::string bytes;        // of the file, up to where the data begins
    Header header;            // the same, read back
    uint64_t file_bytes = 0;  // with the data and its padding
  };
  // The header as bytes, verified by parsing them again: the errors are those of parse_header.
  Result<Encoded> encode(const Limits& limits = {}) const;

 private:
  struct Entry {
    std::string key;
    ValueType type;
    ValueType element_type;
    uint64_t n_elements;
    std::string value;
  };
  struct Tensor {
    std::string name;
    DType dtype;
    std::vector<uint64_t> dims;
  };

  template <class T>
  void set_number(std::string_view key, T value) {
    std::array<std::byte, sizeof(T)> bytes;
    store_le(bytes.data(), value);
    set(key, Value(value_type_of<T>(), bytes));
  }
  static void append_string(std::string& to, std::string_view text);
  static void append_entry(std::string& to, const Entry& entry);
  static Result<uint64_t> append_tensor(std::string& to, const Tensor& tensor, uint64_t offset);
  uint64_t alignment() const;

  std::vector<Entry> entries_;
  std::map<std::string, size_t, std::less<>> positions_;
  std::vector<Tensor> tensors_;
};

class GgufWriter {
 public:
  // Writes the header, padded to where the data begins.
  static Result<GgufWriter> create(const std::string& path, const HeaderBuilder& header, WriteOptions options = {},
                                   const Limits& limits = {});

  std::span<const TensorInfo> tensors() const { return header_.tensors; }  // and where each one goes
  uint64_t file_bytes() const { return file_bytes_; }

  // Writes the next bytes of the current tensor. A tensor may be written in several pieces; a piece belongs to one
  // tensor. Padding is added automatically.
  Result<void> write(std::span<const std::byte> piece);

  // Publishes the file. gguf_write when data is missing.
  Result<void> finish();
  // Publishes the file; data that was not written is a hole, which reads as zeros and takes no space.
  Result<void> finish_sparse();

 private:
  GgufWriter(FileWriter file, Header header, uint64_t file_bytes, std::string path)
      : file_(std::move(file)), header_(std::move(header)), file_bytes_(file_bytes), path_(std::move(path)) {}
  uint64_t next_begin() const;

  FileWriter file_;
  Header header_;
  uint64_t file_bytes_;
  std::string path_;
  size_t due_ = 0;          // the tensor being written
  uint64_t n_written_ = 0;  // of it
};

}  // namespace rocmforge::gguf
