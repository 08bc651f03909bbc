#include "engine/model_list.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>

#include "engine/model_cache.h"
#include "gguf/split.h"

namespace rocmforge {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".gguf";

// "NAME-00002-of-00003.gguf" taken apart.
struct ShardName {
  std::string stem;
  gguf::Split split;
};

std::optional<ShardName> shard_name(std::string_view path) {
  constexpr size_t kTail = std::string_view("-00001-of-00001.gguf").size();
  if (path.size() <= kTail) return std::nullopt;
  const std::string_view tail = path.substr(path.size() - kTail);
  uint32_t number = 0, count = 0;
  if (std::from_chars(tail.data() + 1, tail.data() + 6, number).ptr != tail.data() + 6) return std::nullopt;
  if (std::from_chars(tail.data() + 10, tail.data() + 15, count).ptr != tail.data() + 15) return std::nullopt;
  if (number == 0 || number > count) return std::nullopt;
  const gguf::Split split{number - 1, count, {}};
  const auto stem = gguf::split_stem(path, split);
  if (!stem) return std::nullopt;
  return ShardName{std::string(*stem), split};
}

std::string base_name(std::string_view path) {
  std::string name = fs::path(path).filename().string();
  if (name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
  return name;
}

// The files of each model, by the path of the first.
using FilesByModel = std::map<std::string, std::vector<std::string>>;

void add_file(FilesByModel& models, const std::string& path) {
  const auto shard = shard_name(path);
  models[shard ? gguf::shard_path(shard->stem, 0, shard->split.count) : path].push_back(path);
}

struct FileTime {
  uint64_t n_bytes = 0;
  int64_t modified_ns = 0;
};

Result<FileTime> stat_file(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    return Error{errno == ENOENT ? ErrorCode::file_not_found : ErrorCode::file_access,
                 fmt::format("'{}': {}", path, std::strerror(errno))};
  }
  return FileTime{static_cast<uint64_t>(info.st_size), info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec};
}

Result<ModelFacts> read_facts(const std::string& path) {
  return read_model_facts(TRY(gguf::GgufFile::open(path)));
}

ListedModel describe(const std::string& path, const std::vector<std::string>& files, ModelCache& cache) {
  ListedModel model;
  const auto shard = shard_name(path);
  model.name = base_name(shard ? shard->stem : path);
  model.path = path;
  model.n_files = static_cast<uint32_t>(files.size());
  int64_t modified_ns = 0;
  for (const std::string& file : files) {
    const Result<FileTime> time = stat_file(file);
    if (!time.ok()) {
      model.error = time.error();
      return model;
    }
    model.file_bytes += time->n_bytes;
    modified_ns = std::max(modified_ns, time->modified_ns);
  }
  model.modified_seconds = modified_ns / 1'000'000'000;
  const ModelCache::Key key{path, model.file_bytes, modified_ns};
  model.facts = cache.find(key);
  if (model.facts) return model;
  Result<ModelFacts> facts = read_facts(path);
  if (facts.ok()) {
    model.facts = std::move(*facts);
    cache.add(key, *model.facts);
  } else {
    model.error = std::move(facts).error();
  }
  return model;
}

}  // namespace

std::vector<ListedModel> list_models(const ModelListOptions& options) {
  std::multimap<std::string, ListedModel> found;  // those of one name in the order in which they were found
  std::vector<FilesByModel> places(options.folders.size() + 1);
  for (size_t i = 0; i < options.folders.size(); i++) {
    std::error_code error;
    for (fs::directory_iterator at(options.folders[i], error), end; !error && at != end; at.increment(error)) {
      std::error_code ignored;
      const std::string path = at->path().string();
      if (path.ends_with(kSuffix) && !at->is_directory(ignored)) add_file(places[i], path);
    }
    if (error && error != std::errc::no_such_file_or_directory) {
      found.emplace(options.folders[i], ListedModel{.name = options.folders[i],
                                                    .path = options.folders[i],
                                                    .error = Error{ErrorCode::file_access, error.message()}});
    }
  }
  for (const std::string& file : options.files) add_file(places.back(), file);

  ModelCache cache = ModelCache::load(options.cache_file);
  for (const FilesByModel& place : places) {
    for (const auto& [path, files] : place) {
      ListedModel model = describe(path, files, cache);
      found.emplace(model.name, std::move(model));
    }
  }
  cache.save();
  std::vector<ListedModel> models;
  for (auto& [name, model] : found) models.push_back(std::move(model));
  return models;
}

std::optional<std::string> find_in_folder(const std::string& folder, std::string_view name) {
  std::error_code error;
  const std::string base = folder + "/" + std::string(name);
  for (const std::string& candidate : {base, base + std::string(kSuffix)}) {
    if (fs::is_regular_file(candidate, error)) return candidate;
  }
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string path = at->path().string();
    const auto shard = shard_name(path);
    if (shard && shard->split.number == 0 && base_name(shard->stem) == name) return path;
  }
  return std::nullopt;
}

}  // namespace rocmforge
