#pragma once
// What is read from CLI11's tree of commands: texts for completion and manuals, and the arguments that settings add.

#include <string>
#include <vector>

#include "base/result.h"
#include "option_tree.h"
#include "settings.h"

namespace CLI {
class App;
}

namespace rocmforge::apps {

const CLI::App* find_command(const CLI::App& root, const std::string& name);  // null if there is none
CommandText command_text(const CLI::App& app);

// `arguments` (without the program's name) and, behind the command, a flag for each one of the chosen command that was
// not given and stands in the environment (--a-flag as ROCMFORGE_A_FLAG) or in `settings`, in this order.
// REQUIRES: `root` has parsed `arguments`
// Errors: invalid_argument, of a setting that no command takes, with `path` and its line.
Result<std::vector<std::string>> with_settings(const CLI::App& root, std::vector<std::string> arguments,
                                               const std::vector<Setting>& settings, const std::string& path);

}  // namespace rocmforge::apps
