#pragma once
// Groups of flags that commands with an engine share. Includes CLI11.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "engine_commands.h"
#include "serve.h"

namespace rocmforge::apps {

inline constexpr const char* kModelHelp = "A GGUF file or the name of a model; none: the bundled one";

// A name of the map, which CLI11 gets as the number of its value.
template <class T>
CLI::Validator one_of(const std::map<std::string, T>& names) {
  return CLI::Validator(
      [&names](std::string& text) {
        if (const auto found = names.find(text); found != names.end()) {
          text = std::to_string(static_cast<int>(found->second));
          return std::string();
        }
        std::string all;
        for (const auto& [name, value] : names) all += (all.empty() ? "" : ", ") + name;
        return "'" + text + "' is none of: " + all;
      },
      "");
}

// What every command with an engine takes.
void add_engine_flags(CLI::App* app, EngineFlags& flags);
void add_constraint_flags(CLI::App* app, ConstraintFlags& flags);
void add_sampling_flags(CLI::App* app, SamplingOptions& sampling);
void add_seed_flag(CLI::App* app, std::optional<uint64_t>& seed);
void add_serve_flags(CLI::App* app, ServeCommand& options);

}  // namespace rocmforge::apps
