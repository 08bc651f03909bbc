#pragma once
// Lists the models in folders without loading them: one entry per model; the files of a split model are one entry. A
// file that cannot be used is listed with its error.
//
// A cache file keeps the headers that were read, by path, size and time, so that a large folder lists at once. Without
// the cache (missing, damaged or not writable) listing only takes longer.
//
// Threads: any; two processes may share a cache file.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/model_facts.h"

namespace rocmforge {

struct ListedModel {
  std::string name;  // of the file, without .gguf and without -00001-of-00003
  std::string path;  // of the first file
  uint32_t n_files = 1;
  uint64_t file_bytes = 0;       // of all files
  int64_t modified_seconds = 0;  // since 1970, of the newest
  std::optional<ModelFacts> facts = {};
  std::optional<Error> error = {};  // present if facts are absent
};

struct ModelListOptions {
  std::vector<std::string> folders;     // without their subfolders; an absent folder counts as empty
  std::vector<std::string> files = {};  // listed in addition
  std::string cache_file = {};          // empty: none
};

// Sorted by name. If a name repeats, the model that was found first is listed.
std::vector<ListedModel> list_models(const ModelListOptions& options);

// The path of the model with this name in a folder: NAME, NAME.gguf, or the first of a split NAME-00001-of-....gguf.
std::optional<std::string> find_in_folder(const std::string& folder, std::string_view name);

}  // namespace rocmforge
