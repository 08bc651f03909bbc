#pragma once
// The models in folders, without loading any: one entry per model, a split one's files together. A file that cannot be
// used is listed with its error and holds up nothing.
//
// Headers that were read are remembered in a cache file by path, size and time, so that a large folder lists at once. A
// cache that is missing, damaged or cannot be written changes nothing but the time.
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
  std::string name;  // the file's, without .gguf and without -00001-of-00003
  std::string path;  // of the first file
  uint32_t n_files = 1;
  uint64_t file_bytes = 0;       // all together
  int64_t modified_seconds = 0;  // since 1970, of the newest
  std::optional<ModelFacts> facts = {};
  std::optional<Error> error = {};  // there when facts are not
};

struct ModelListOptions {
  std::vector<std::string> folders;     // their .gguf files, not those of folders within; one that is absent is empty
  std::vector<std::string> files = {};  // and these
  std::string cache_file = {};          // empty: none
};

// By name. A name that repeats stands for the model that was found first.
std::vector<ListedModel> list_models(const ModelListOptions& options);

// The path of the model with this name in a folder: NAME, NAME.gguf, or the first of a split NAME-00001-of-....gguf.
std::optional<std::string> find_in_folder(const std::string& folder, std::string_view name);

}  // namespace rocmforge
