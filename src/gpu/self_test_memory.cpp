#include "gpu/self_test_memory.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <vector>

#include "base/file.h"
#include "base/file_writer.h"
#include "base/json.h"
#include "base/log.h"

namespace rocmforge::gpu {
namespace {

constexpr int64_t kVersion = 1;
constexpr uint64_t kMaxBytes = 1 << 20;
constexpr size_t kMaxKept = 32;  // the newest

struct Entry {
  SelfTestKey key;
  SelfTestReport report;
};

bool are_same(const SelfTestKey& a, const SelfTestKey& b) {
  return a.device == b.device && a.driver == b.driver && a.module == b.module;
}

const std::string* text_of(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.find(key);
  return value != nullptr ? value->as<std::string>() : nullptr;
}

std::optional<Entry> entry_of(const JsonValue& object) {
  const auto* device = text_of(object, "device");
  const auto* driver = text_of(object, "driver");
  const auto* module = text_of(object, "module");
  const JsonValue* faults = object.find("families");
  const auto* all = faults != nullptr ? faults->as<JsonArray>() : nullptr;
  if (device == nullptr || driver == nullptr || module == nullptr || all == nullptr) return std::nullopt;
  Entry out{{*device, *driver, *module}, {self_test_families()}};
  if (all->size() != out.report.results.size()) return std::nullopt;
  for (size_t i = 0; i < all->size(); i++) {
    const auto* family = text_of((*all)[i], "family");
    const auto* fault = text_of((*all)[i], "fault");
    if (family == nullptr || fault == nullptr || *family != out.report.results[i].family) return std::nullopt;
    out.report.results[i].fault = *fault;
  }
  return out;
}

std::vector<Entry> read_entries(const std::string& file) {
  std::vector<Entry> out;
  if (file.empty()) return out;
  const Result<std::string> text = read_whole_file(file, kMaxBytes);
  if (!text.ok()) return out;
  const Result<JsonValue> root = parse_json(*text);
  if (!root.ok()) return out;
  const JsonValue* version = root->find("version");
  const JsonValue* results = root->find("results");
  if (version == nullptr || version->as<int64_t>() == nullptr || *version->as<int64_t>() != kVersion) return out;
  if (results == nullptr || results->as<JsonArray>() == nullptr) return out;
  for (const JsonValue& object : *results->as<JsonArray>()) {
    if (auto entry = entry_of(object)) out.push_back(std::move(*entry));
  }
  return out;
}

std::string text_of(std::span<const Entry> entries) {
  JsonWriter w(JsonWriter::Style::pretty);
  w.begin_object().key("version").value(kVersion).key("results").begin_array();
  for (const auto& [key, report] : entries) {
    w.begin_object().key("device").value(key.device).key("driver").value(key.driver).key("module").value(key.module);
    w.key("families").begin_array();
    for (const SelfTestResult& r : report.results) {
      w.begin_object().key("family").value(r.family).key("fault").value(r.fault).end_object();
    }
    w.end_array().end_object();
  }
  w.end_array().end_object();
  return w.take() + "\n";
}

Result<void> write_entries(const std::string& file, std::span<const Entry> entries) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), error);
  FileWriter writer = TRY(FileWriter::create(file, {.durable = false}));
  const std::string text = text_of(entries);
  TRY(writer.write(std::as_bytes(std::span(text))));
  return writer.commit();
}

}  // namespace

std::optional<SelfTestReport> remembered_self_test(const std::string& file, const SelfTestKey& key) {
  for (const Entry& entry : read_entries(file)) {
    if (are_same(entry.key, key)) return entry.report;
  }
  return std::nullopt;
}

void remember_self_test(const std::string& file, const SelfTestKey& key, const SelfTestReport& report) {
  if (file.empty()) return;
  std::vector<Entry> entries = read_entries(file);
  const size_t n_forgotten = std::erase_if(entries, [&](const Entry& entry) { return are_same(entry.key, key); });
  if (!report.was_run() && n_forgotten == 0) return;
  if (report.was_run()) entries.push_back({key, report});
  const size_t n_kept = std::min(entries.size(), kMaxKept);
  if (const auto written = write_entries(file, std::span(entries).last(n_kept)); !written.ok()) {
    log(LogLevel::info, "gpu: the result of the self-test is not remembered: {}", written.error().message);
  }
}

}  // namespace rocmforge::gpu
