#include "gguf/overrides.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>

#include "base/bytes.h"

namespace rocmforge::gguf {
namespace {

template <class T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// The value's bytes; nothing when the text is not of the type.
std::optional<std::string> read_value(ValueType type, std::string_view text) {
  if (type == ValueType::i64) {
    const auto value = number_in<int64_t>(text);
    return value ? std::optional(bytes_of(*value)) : std::nullopt;
  }
  if (type == ValueType::f32) {
    const auto value = number_in<float>(text);
    return value && std::isfinite(*value) ? std::optional(bytes_of(*value)) : std::nullopt;
  }
  if (type == ValueType::boolean) {
    if (text != "true" && text != "false") return std::nullopt;
    return std::string(1, text == "true" ? '\1' : '\0');
  }
  return std::string(text);
}

std::optional<ValueType> type_named(std::string_view name) {
  if (name == "int") return ValueType::i64;
  if (name == "float") return ValueType::f32;
  if (name == "bool") return ValueType::boolean;
  if (name == "str") return ValueType::string;
  return std::nullopt;
}

// The storage of the file's own values, and behind it keys and values that are new.
class Rebuilt {
 public:
  explicit Rebuilt(const Metadata& metadata) : storage_(std::make_shared<std::vector<std::byte>>()) {
    size_t n_bytes = 0;
    for (const Metadata::Entry& entry : metadata.entries()) n_bytes += entry.key.size() + entry.value.bytes().size();
    storage_->reserve(n_bytes);
    for (const Metadata::Entry& entry : metadata.entries()) {
      add(std::string(entry.key), entry.value.type(), element_type_of(entry.value), entry.value.n_elements(),
          entry.value.bytes());
    }
  }

  void set(const std::string& key, const Override& one) {
    std::erase_if(items_, [&](const Item& item) { return item.key == key; });
    add(key, one.type, one.type, 1, as_bytes(one.bytes));
  }

  Metadata build() && {
    std::vector<Metadata::Entry> entries;
    const std::span<const std::byte> all(*storage_);
    for (const Item& item : items_) {
      const auto key = all.subspan(item.at, item.key.size());
      const auto bytes = all.subspan(item.at + item.key.size(), item.n_bytes);
      entries.push_back({as_text(key), Value(item.type, item.element_type, item.n, bytes)});
    }
    return {std::move(storage_), std::move(entries)};
  }

 private:
  struct Item {
    std::string key;
    ValueType type, element_type;
    uint64_t n;
    size_t at, n_bytes;
  };
  static ValueType element_type_of(const Value& value) {
    return value.type() == ValueType::array ? value.element_type() : value.type();
  }
  void add(const std::string& key, ValueType type, ValueType element_type, uint64_t n,
           std::span<const std::byte> bytes) {
    items_.push_back({key, type, element_type, n, storage_->size(), bytes.size()});
    storage_->insert(storage_->end(), as_bytes(key).begin(), as_bytes(key).end());
    storage_->insert(storage_->end(), bytes.begin(), bytes.end());
  }

  std::shared_ptr<std::vector<std::byte>> storage_;
  std::vector<Item> items_;
};

}  // namespace

Result<Override> parse_override(std::string_view text) {
  const auto wrong = [&](std::string_view what) {
    return Error{
        ErrorCode::invalid_argument,
        fmt::format("override '{}': {}; the form is KEY=TYPE:VALUE, TYPE being int, float, bool or str", text, what)};
  };
  const size_t equals = text.find('='), colon = text.find(':', equals == std::string_view::npos ? 0 : equals);
  if (equals == std::string_view::npos || equals == 0) return wrong("it has no key");
  if (colon == std::string_view::npos) return wrong("it has no type");
  const auto type = type_named(text.substr(equals + 1, colon - equals - 1));
  if (!type) return wrong("its type is not known");
  auto bytes = read_value(*type, text.substr(colon + 1));
  if (!bytes) return wrong("its value is not of its type");
  return Override{std::string(text.substr(0, equals)), *type, std::move(*bytes)};
}

Result<Metadata> with_overrides(const Metadata& metadata, std::span<const Override> overrides) {
  Rebuilt rebuilt(metadata);
  for (const Override& one : overrides) {
    std::string key = one.key;
    if (key.starts_with('.')) key = std::string(TRY(metadata.string("general.architecture"))) + key;
    rebuilt.set(key, one);
  }
  return std::move(rebuilt).build();
}

}  // namespace rocmforge::gguf
