#pragma once
// Facts about model files, remembered between runs (see model_list.h).

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "engine/model_facts.h"

namespace rocmforge {

class ModelCache {
 public:
  struct Key {
    std::string path;
    uint64_t file_bytes = 0;
    int64_t modified_ns = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  // Empty when the file is absent or is no cache of this version. An empty path: nothing is remembered.
  static ModelCache load(const std::string& path);

  std::optional<ModelFacts> find(const Key& key) const;
  void add(const Key& key, const ModelFacts& facts);
  // Replaces the file whole when something was added; a failure is logged and otherwise ignored.
  void save() const;

 private:
  std::string path_;
  std::map<Key, ModelFacts> facts_;
  bool is_changed_ = false;
};

}  // namespace rocmforge
