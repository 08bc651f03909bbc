#include "gguf/metadata.h"

#include <fmt/core.h>

#include <array>
#include <concepts>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

namespace rocmforge::gguf {
namespace {

// f(number) with the number at `at` in its own C++ type; an empty result for strings and arrays.
template <class F>
auto visit_number(ValueType type, const std::byte* at, F f) -> decltype(f(uint8_t{})) {
  switch (type) {
    case ValueType::u8:
      return f(load_le<uint8_t>(at));
    case ValueType::i8:
      return f(load_le<int8_t>(at));
    case ValueType::u16:
      return f(load_le<uint16_t>(at));
    case ValueType::i16:
      return f(load_le<int16_t>(at));
    case ValueType::u32:
      return f(load_le<uint32_t>(at));
    case ValueType::i32:
      return f(load_le<int32_t>(at));
    case ValueType::f32:
      return f(load_le<float>(at));
    case ValueType::boolean:
      return f(load_le<uint8_t>(at) != 0);
    case ValueType::u64:
      return f(load_le<uint64_t>(at));
    case ValueType::i64:
      return f(load_le<int64_t>(at));
    case ValueType::f64:
      return f(load_le<double>(at));
    case ValueType::string:
    case ValueType::array:
      return {};
  }
  RF_UNREACHABLE("a ValueType outside its enum");
}

template <class T>
constexpr bool kIsInteger = std::integral<T> && !std::same_as<T, bool>;

template <std::integral To>
std::optional<To> to_integer(ValueType type, const std::byte* at) {
  return visit_number(type, at, [](auto number) -> std::optional<To> {
    if constexpr (kIsInteger<decltype(number)>) {
      if (std::in_range<To>(number)) return static_cast<To>(number);
    }
    return std::nullopt;
  });
}

std::optional<double> to_double(ValueType type, const std::byte* at) {
  return visit_number(type, at, [](auto number) -> std::optional<double> {
    if constexpr (std::same_as<decltype(number), bool>) return std::nullopt;
    return static_cast<double>(number);
  });
}

constexpr std::array<std::byte, 8> kAnyNumber{};  // to ask about a type, not about a value

bool is_integer(ValueType type) {
  return visit_number(type, kAnyNumber.data(), [](auto number) { return kIsInteger<decltype(number)>; });
}

// Infinities and NaN pass: what a float means is its reader's business.
bool fits_float(double number) {
  return !(number > std::numeric_limits<float>::max() && number < std::numeric_limits<double>::infinity()) &&
         !(number < std::numeric_limits<float>::lowest() && number > -std::numeric_limits<double>::infinity());
}

std::string type_text(const Value& value) {
  if (value.type() != ValueType::array) return std::string(value_type_name(value.type()));
  return fmt::format("array of {}", value_type_name(value.element_type()));
}

// From here to the end of the namespace: a value as what the caller asked for, or the bare fact that it is not that.

Error wrong_type(const Value& value, std::string_view wanted) {
  return {ErrorCode::gguf_key_type, fmt::format("is {}, {} is needed", type_text(value), wanted)};
}

template <std::integral To>
Result<To> integer(const Value& value) {
  constexpr const char* kWanted = sizeof(To) == 8 ? "u64" : std::is_signed_v<To> ? "i32" : "u32";
  if (!is_integer(value.type())) return wrong_type(value, kWanted);
  if (const auto number = to_integer<To>(value.type(), value.bytes().data())) return *number;
  return Error{ErrorCode::gguf_key_range, fmt::format("its number does not fit {}", kWanted)};
}

Result<float> real(const Value& value) {
  const auto number = value.as_f64();
  if (!number) return wrong_type(value, "a number");
  if (!fits_float(*number)) return Error{ErrorCode::gguf_key_range, fmt::format("{} does not fit f32", *number)};
  return static_cast<float>(*number);
}

template <class T>
Result<T> or_wrong_type(const std::optional<T>& got, const Value& value, std::string_view wanted) {
  if (got) return *got;
  return wrong_type(value, wanted);
}

template <class T>
Result<std::vector<T>> numbers(const Value& value, Result<T> (*convert)(const Value&)) {
  if (value.type() != ValueType::array || value.element_type() == ValueType::string) {
    return wrong_type(value, "an array of numbers");
  }
  std::vector<T> out;
  out.reserve(value.n_elements());
  for (uint64_t i = 0; i < value.n_elements(); i++) {
    auto number = convert(value.element(i));
    if (!number.ok()) return std::move(number).error().in(fmt::format("element {}", i));
    out.push_back(*number);
  }
  return out;
}

}  // namespace

std::string_view value_type_name(ValueType type) {
  switch (type) {
    case ValueType::u8:
      return "u8";
    case ValueType::i8:
      return "i8";
    case ValueType::u16:
      return "u16";
    case ValueType::i16:
      return "i16";
    case ValueType::u32:
      return "u32";
    case ValueType::i32:
      return "i32";
    case ValueType::f32:
      return "f32";
    case ValueType::boolean:
      return "bool";
    case ValueType::string:
      return "string";
    case ValueType::array:
      return "array";
    case ValueType::u64:
      return "u64";
    case ValueType::i64:
      return "i64";
    case ValueType::f64:
      return "f64";
  }
  RF_UNREACHABLE("a ValueType outside its enum");
}

std::optional<ValueType> value_type_from_id(uint32_t id) {
  if (id > static_cast<uint32_t>(ValueType::f64)) return std::nullopt;
  return static_cast<ValueType>(id);
}

size_t value_type_bytes(ValueType type) {
  return visit_number(type, kAnyNumber.data(), [](auto number) { return sizeof number; });
}

std::optional<uint64_t> Value::as_u64() const {
  return to_integer<uint64_t>(type_, bytes_.data());
}
std::optional<int64_t> Value::as_i64() const {
  return to_integer<int64_t>(type_, bytes_.data());
}
std::optional<double> Value::as_f64() const {
  return to_double(type_, bytes_.data());
}

std::optional<bool> Value::as_bool() const {
  if (type_ != ValueType::boolean) return std::nullopt;
  return bytes_[0] != std::byte{0};
}

std::optional<std::string_view> Value::as_string() const {
  if (type_ != ValueType::string) return std::nullopt;
  return as_text(bytes_);
}

std::optional<StringArrayView> Value::as_strings() const {
  if (type_ != ValueType::array || element_type_ != ValueType::string) return std::nullopt;
  return StringArrayView(bytes_, n_);
}

Value Value::element(uint64_t i) const {
  CHECK(type_ == ValueType::array && element_type_ != ValueType::string && i < n_);
  const size_t n_bytes = value_type_bytes(element_type_);
  return Value(element_type_, bytes_.subspan(i * n_bytes, n_bytes));
}

Metadata::Metadata(std::shared_ptr<const std::vector<std::byte>> storage, std::vector<Entry> entries)
    : storage_(std::move(storage)), entries_(std::move(entries)) {
  index_ = NameIndex(names_of(this->entries(), &Entry::key));
  CHECK(!index_.first_duplicate());
}

const Value* Metadata::find(std::string_view key) const {
  const auto position = index_.find(key);
  return position ? &entries_[*position].value : nullptr;
}

template <class Convert>
auto Metadata::get(std::string_view key, Convert convert) const -> decltype(convert(std::declval<const Value&>())) {
  const Value* value = find(key);
  if (!value) {
    return Error{ErrorCode::gguf_key_missing, fmt::format("gguf: key '{}': is not in the file", key)};
  }
  auto result = convert(*value);
  if (!result.ok()) {
    return std::move(result).error().in(fmt::format("gguf: key '{}' at byte {}", key, offset_of(*value)));
  }
  return result;
}

template <class T>
Result<T> Metadata::get_or(std::string_view key, T fallback,
                           Result<T> (Metadata::*typed)(std::string_view) const) const {
  if (!has(key)) return fallback;
  return (this->*typed)(key);
}

uint64_t Metadata::offset_of(const Value& value) const {
  return storage_ ? static_cast<uint64_t>(value.bytes().data() - storage_->data()) : 0;
}

Result<uint32_t> Metadata::u32(std::string_view key) const {
  return get(key, integer<uint32_t>);
}
Result<uint64_t> Metadata::u64(std::string_view key) const {
  return get(key, integer<uint64_t>);
}
Result<float> Metadata::f32(std::string_view key) const {
  return get(key, real);
}

Result<bool> Metadata::boolean(std::string_view key) const {
  return get(key, [](const Value& v) { return or_wrong_type(v.as_bool(), v, "bool"); });
}
Result<std::string_view> Metadata::string(std::string_view key) const {
  return get(key, [](const Value& v) { return or_wrong_type(v.as_string(), v, "string"); });
}
Result<StringArrayView> Metadata::strings(std::string_view key) const {
  return get(key, [](const Value& v) { return or_wrong_type(v.as_strings(), v, "array of string"); });
}
Result<std::vector<float>> Metadata::f32_array(std::string_view key) const {
  return get(key, [](const Value& v) { return numbers(v, real); });
}
Result<std::vector<int32_t>> Metadata::i32_array(std::string_view key) const {
  return get(key, [](const Value& v) { return numbers(v, integer<int32_t>); });
}

Result<uint32_t> Metadata::u32_or(std::string_view key, uint32_t fallback) const {
  return get_or(key, fallback, &Metadata::u32);
}
Result<uint64_t> Metadata::u64_or(std::string_view key, uint64_t fallback) const {
  return get_or(key, fallback, &Metadata::u64);
}
Result<float> Metadata::f32_or(std::string_view key, float fallback) const {
  return get_or(key, fallback, &Metadata::f32);
}
Result<bool> Metadata::boolean_or(std::string_view key, bool fallback) const {
  return get_or(key, fallback, &Metadata::boolean);
}
Result<std::string_view> Metadata::string_or(std::string_view key, std::string_view fallback) const {
  return get_or(key, fallback, &Metadata::string);
}

}  // namespace rocmforge::gguf
