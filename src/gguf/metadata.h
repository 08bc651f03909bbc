#pragma once
// The key-value part of a GGUF file. Values are views into the header's bytes, which the Metadata owns: a vocabulary
// of 150,000 strings costs its bytes once and no allocation per string.
//
// Threads: immutable after construction; all reads are const.

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "gguf/name_index.h"

namespace rocmforge::gguf {

// The values are the ids stored in files.
enum class ValueType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

std::string_view value_type_name(ValueType type);

// The type with this file id, or nothing.
std::optional<ValueType> value_type_from_id(uint32_t id);

// Bytes of one value of a fixed-size type; 0 for string and array.
size_t value_type_bytes(ValueType type);

// The elements of a string array, in order. Each is 8 bytes of length and then the text.
class StringArrayView {
 public:
  StringArrayView(std::span<const std::byte> bytes, uint64_t n) : bytes_(bytes), n_(n) {}
  uint64_t size() const { return n_; }

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using pointer = const std::string_view*;
    using reference = std::string_view;

    explicit Iterator(const std::byte* at) : at_(at) {}
    std::string_view operator*() const {
      return {reinterpret_cast<const char*>(at_ + 8), static_cast<size_t>(load_le<uint64_t>(at_))};
    }
    Iterator& operator++() {
      at_ += 8 + load_le<uint64_t>(at_);
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(Iterator a, Iterator b) { return a.at_ == b.at_; }

   private:
    const std::byte* at_;
  };
  Iterator begin() const { return Iterator(bytes_.data()); }
  Iterator end() const { return Iterator(bytes_.data() + bytes_.size()); }

 private:
  std::span<const std::byte> bytes_;
  uint64_t n_;
};

// One value. Numbers of other widths and signs convert where the number fits; nothing else converts.
class Value {
 public:
  // A scalar or a string: `bytes` is the number as stored, or the text. REQUIRES: type is not array, bytes fit it
  Value(ValueType type, std::span<const std::byte> bytes) : Value(type, type, 1, bytes) {}
  // The general form. For an array, `bytes` holds its n elements in sequence, each string after its 8-byte length.
  Value(ValueType type, ValueType element_type, uint64_t n, std::span<const std::byte> bytes)
      : type_(type), element_type_(element_type), n_(n), bytes_(bytes) {}

  ValueType type() const { return type_; }
  // REQUIRES: type() == array
  ValueType element_type() const { return element_type_; }
  uint64_t n_elements() const { return n_; }  // 1 unless an array
  // The value as stored: a scalar's bytes, a string's text, an array's elements.
  std::span<const std::byte> bytes() const { return bytes_; }

  std::optional<uint64_t> as_u64() const;
  std::optional<int64_t> as_i64() const;
  std::optional<double> as_f64() const;  // floats and integers
  std::optional<bool> as_bool() const;
  std::optional<std::string_view> as_string() const;
  std::optional<StringArrayView> as_strings() const;
  // Element i of an array of numbers or booleans, as a Value of its own. REQUIRES: i < n_elements(), not strings
  Value element(uint64_t i) const;

 private:
  ValueType type_;
  ValueType element_type_;
  uint64_t n_;
  std::span<const std::byte> bytes_;
};

class Metadata {
 public:
  struct Entry {
    std::string_view key;
    Value value;
  };

  Metadata() = default;
  // Takes entries whose views point into `storage`. REQUIRES: keys are distinct
  Metadata(std::shared_ptr<const std::vector<std::byte>> storage, std::vector<Entry> entries);

  std::span<const Entry> entries() const { return entries_; }  // in file order
  const Value* find(std::string_view key) const;               // null when absent
  bool has(std::string_view key) const { return find(key) != nullptr; }
  // Where an entry's value stands in the storage, which is where it stands in the file.
  uint64_t offset_of(const Value& value) const;

  // Typed access: gguf_key_missing, gguf_key_type or gguf_key_range, naming the key and the byte.
  Result<uint32_t> u32(std::string_view key) const;
  Result<uint64_t> u64(std::string_view key) const;
  Result<float> f32(std::string_view key) const;
  Result<bool> boolean(std::string_view key) const;
  Result<std::string_view> string(std::string_view key) const;
  Result<StringArrayView> strings(std::string_view key) const;
  Result<std::vector<float>> f32_array(std::string_view key) const;
  Result<std::vector<int32_t>> i32_array(std::string_view key) const;

  // The same, with a default for a key that is absent; a key that is there with a wrong type is still an error.
  Result<uint32_t> u32_or(std::string_view key, uint32_t fallback) const;
  Result<uint64_t> u64_or(std::string_view key, uint64_t fallback) const;
  Result<float> f32_or(std::string_view key, float fallback) const;
  Result<bool> boolean_or(std::string_view key, bool fallback) const;
  Result<std::string_view> string_or(std::string_view key, std::string_view fallback) const;

 private:
  template <class Convert>
  auto get(std::string_view key, Convert convert) const -> decltype(convert(std::declval<const Value&>()));
  template <class T>
  Result<T> get_or(std::string_view key, T fallback, Result<T> (Metadata::*typed)(std::string_view) const) const;

  std::shared_ptr<const std::vector<std::byte>> storage_;
  std::vector<Entry> entries_;
  NameIndex index_;
};

}  // namespace rocmforge::gguf
