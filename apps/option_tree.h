#pragma once
// The commands and their flags as data: what shell completion and man pages are written from.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge::apps {

struct OptionText {
  std::vector<std::string> names = {};  // "-t", "--threads"; of a positional, its one name: "MODEL"
  std::string help = {};
  bool is_positional = false, takes_value = false;
};

struct CommandText {
  std::string name, summary;
  std::vector<OptionText> options = {};
  std::vector<CommandText> commands = {};
};

enum class Shell : uint8_t { bash, zsh, fish };
std::string completion_script(const CommandText& root, Shell shell);

// The man page of one command, or of `rocmforge` itself for an empty name.
std::string manual_page(const CommandText& root, std::string_view command, std::string_view version,
                        std::string_view footer);

}  // namespace rocmforge::apps
