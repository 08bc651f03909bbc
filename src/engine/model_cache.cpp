#include "engine/model_cache.h"

#include <fmt/core.h>

#include <filesystem>
#include <limits>

#include "base/file.h"
#include "base/file_writer.h"
#include "base/json.h"
#include "base/log.h"

namespace rocmforge {
namespace {

constexpr int64_t kVersion = 1;
constexpr uint64_t kMaxBytes = 16u << 20;

// One entry as an object; nothing is assumed about what a file holds.
class Entry {
 public:
  explicit Entry(const JsonValue& object) : object_(object) {}

  bool is_whole() const { return is_whole_; }
  std::string text(std::string_view key) {
    const auto* value = member<std::string>(key);
    return value ? *value : "";
  }
  uint64_t number(std::string_view key, uint64_t most = std::numeric_limits<int64_t>::max()) {
    const auto* value = member<int64_t>(key);
    if (value && *value >= 0 && static_cast<uint64_t>(*value) <= most) return static_cast<uint64_t>(*value);
    is_whole_ = false;
    return 0;
  }
  uint32_t small_number(std::string_view key) {
    return static_cast<uint32_t>(number(key, std::numeric_limits<uint32_t>::max()));
  }

 private:
  template <class T>
  const T* member(std::string_view key) {
    const JsonValue* value = object_.find(key);
    const T* found = value ? value->as<T>() : nullptr;
    is_whole_ = is_whole_ && found;
    return found;
  }

  const JsonValue& object_;
  bool is_whole_ = true;
};

Result<void> write_whole(const std::string& path, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  FileWriter writer = TRY(FileWriter::create(path, {.durable = false}));
  TRY(writer.write(std::as_bytes(std::span(text))));
  return writer.commit();
}

}  // namespace

ModelCache ModelCache::load(const std::string& path) {
  ModelCache cache;
  cache.path_ = path;
  if (path.empty()) return cache;
  const Result<std::string> text = read_whole_file(path, kMaxBytes);
  if (!text.ok()) return cache;
  const Result<JsonValue> root = parse_json(*text);
  if (!root.ok()) return cache;
  const JsonValue* version = root->find("version");
  const JsonValue* models = root->find("models");
  if (!version || !version->as<int64_t>() || *version->as<int64_t>() != kVersion) return cache;
  if (!models || !models->as<JsonArray>()) return cache;
  for (const JsonValue& object : *models->as<JsonArray>()) {
    Entry e(object);
    const Key key{e.text("path"), e.number("file_bytes"), static_cast<int64_t>(e.number("modified_ns"))};
    const ModelFacts facts{.architecture = e.text("architecture"),
                           .name = e.text("name"),
                           .n_context_train = e.small_number("n_context"),
                           .n_parameters = e.number("n_parameters"),
                           .n_vocab = e.small_number("n_vocab"),
                           .width = e.small_number("width"),
                           .file_type = e.text("file_type"),
                           .chat_template = e.text("chat_template")};
    if (e.is_whole()) cache.facts_.emplace(key, facts);
  }
  return cache;
}

std::optional<ModelFacts> ModelCache::find(const Key& key) const {
  const auto found = facts_.find(key);
  return found == facts_.end() ? std::nullopt : std::optional(found->second);
}

void ModelCache::add(const Key& key, const ModelFacts& facts) {
  // What was known of the same file as it used to be is of no use.
  std::erase_if(facts_, [&](const auto& entry) { return entry.first.path == key.path; });
  facts_.emplace(key, facts);
  is_changed_ = true;
}

void ModelCache::save() const {
  if (path_.empty() || !is_changed_) return;
  JsonWriter w;
  w.begin_object().key("version").value(kVersion).key("models").begin_array();
  for (const auto& [key, facts] : facts_) {
    w.begin_object();
    w.key("path").value(key.path).key("file_bytes").value(key.file_bytes).key("modified_ns").value(key.modified_ns);
    w.key("architecture").value(facts.architecture).key("name").value(facts.name);
    w.key("n_context").value(facts.n_context_train).key("n_parameters").value(facts.n_parameters);
    w.key("n_vocab").value(facts.n_vocab).key("width").value(facts.width).key("file_type").value(facts.file_type);
    w.key("chat_template").value(facts.chat_template);
    w.end_object();
  }
  w.end_array().end_object();
  if (const auto written = write_whole(path_, w.take()); !written.ok()) {
    log(LogLevel::info, "engine: the cache of models: {}", written.error().message);
  }
}

}  // namespace rocmforge
