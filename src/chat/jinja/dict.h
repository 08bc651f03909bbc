#pragma once
// A dictionary in insertion order. Keys compare as in Python: 1, 1.0 and true are one key.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/entry_index.h"
#include "chat/jinja/value.h"

namespace rocmforge::jinja {

class Dict {
 public:
  struct Entry {
    Value key;
    Value value;
  };

  size_t size() const { return entries_.size(); }
  const std::vector<Entry>& entries() const { return entries_; }
  void reserve(size_t n) { entries_.reserve(n); }

  // The value under the key, or null. REQUIRES: the key passed check_hashable (compare.h)
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  // A key that is there keeps its place. REQUIRES: as find
  void set(Value key, Value value);
  void set(std::string_view key, Value value) { set(Value::string(std::string(key)), std::move(value)); }

  // Moves the entries out, to free them.
  std::vector<Entry> take() { return index_.clear(), std::move(entries_); }

 private:
  std::vector<Entry> entries_;
  EntryIndex index_;
};

}  // namespace rocmforge::jinja
