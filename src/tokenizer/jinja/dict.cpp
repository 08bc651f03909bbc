#include "tokenizer/jinja/dict.h"

#include <cmath>
#include <functional>

#include "tokenizer/jinja/objects.h"

namespace rocmforge::jinja {
namespace {

constexpr size_t kScanLimit = 8;

size_t hash_text(std::string_view text) {
  return std::hash<std::string_view>{}(text);
}

size_t hash_key(const Value& key) {
  switch (key.kind()) {
    case Kind::none:
      return 0x9e3779b9;
    case Kind::boolean:
    case Kind::integer:
      return std::hash<int64_t>{}(key.as_integral());
    case Kind::real: {
      const double v = key.as_number();
      const bool whole = v == std::floor(v) && std::abs(v) < 9.2e18;
      return whole ? std::hash<int64_t>{}(static_cast<int64_t>(v)) : std::hash<double>{}(v);
    }
    case Kind::undefined:
      return 0x85ebca6b;
    case Kind::string:
      return hash_text(key.text());
    case Kind::tuple: {
      size_t hash = 0x345678;
      for (const Value& item : key.items()) hash = hash * 1000003 ^ hash_key(item);
      return hash;
    }
    case Kind::list:
    case Kind::dict:
    case Kind::name_space:
    case Kind::range:
    case Kind::dict_view:
    case Kind::iterator:
    case Kind::function:
    case Kind::macro:
    case Kind::loop:
    case Kind::cycler:
    case Kind::joiner:
      return std::hash<const void*>{}(key.object());
  }
  RF_UNREACHABLE("a Kind outside its enum");
}

bool same_key(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_integral() == b.as_integral();
  if (a.is_number() && b.is_number()) return a.as_number() == b.as_number();
  if (a.kind() != b.kind()) return false;
  if (a.is(Kind::none) || a.is(Kind::undefined)) return true;
  if (a.is(Kind::string)) return a.text() == b.text();
  if (!a.is(Kind::tuple)) return a.object() == b.object();
  if (a.items().size() != b.items().size()) return false;
  for (size_t i = 0; i < a.items().size(); i++) {
    if (!same_key(a.items()[i], b.items()[i])) return false;
  }
  return true;
}

}  // namespace

template <class Matches>
const Dict::Entry* Dict::search(size_t hash, Matches matches) const {
  if (slots_.empty()) {
    for (const Entry& entry : entries_) {
      if (matches(entry.key)) return &entry;
    }
    return nullptr;
  }
  for (size_t at = hash & (slots_.size() - 1); slots_[at] != 0; at = (at + 1) & (slots_.size() - 1)) {
    const Entry& entry = entries_[slots_[at] - 1];
    if (matches(entry.key)) return &entry;
  }
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  const Entry* entry = search(slots_.empty() ? 0 : hash_key(key), [&](const Value& k) { return same_key(k, key); });
  return entry != nullptr ? &entry->value : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  const Entry* entry = search(slots_.empty() ? 0 : hash_text(key),
                              [&](const Value& k) { return k.is(Kind::string) && k.text() == key; });
  return entry != nullptr ? &entry->value : nullptr;
}

void Dict::set(Value key, Value value) {
  if (const Value* old = find(key)) {
    const_cast<Value&>(*old) = std::move(value);
    return;
  }
  entries_.push_back({std::move(key), std::move(value)});
  if (entries_.size() <= kScanLimit) return;
  if (entries_.size() * 2 > slots_.size()) {
    slots_.assign(std::max<size_t>(32, slots_.size() * 2), 0);
    index_from(0);
  } else {
    index_from(entries_.size() - 1);
  }
}

void Dict::index_from(size_t first) {
  for (size_t i = first; i < entries_.size(); i++) {
    size_t at = hash_key(entries_[i].key) & (slots_.size() - 1);
    while (slots_[at] != 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = static_cast<uint32_t>(i + 1);
  }
}

}  // namespace rocmforge::jinja
