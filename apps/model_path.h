#pragma once
// From what a user calls a model to a file.

#include <string>
#include <string_view>

#include "base/result.h"

namespace rocmforge::apps {

// `model` is a path, or the name of a model in the models directory (NAME or NAME.gguf), or of the bundled one;
// empty: the bundled one.
Result<std::string> find_model(std::string_view model);

// models/story-q4_k_m.gguf beside the program, in the source tree around it, or where it was installed.
Result<std::string> find_bundled_model();

// ROCMFORGE_MODELS, else ~/.local/share/rocmforge/models; empty when there is no home either.
std::string models_directory();
inline constexpr const char* kNoModelsDirectory = "there is no models directory: set ROCMFORGE_MODELS or HOME";

}  // namespace rocmforge::apps
