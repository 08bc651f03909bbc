#pragma once
// Settings from a file: flags of commands, as `name = value` lines of a TOML file.
//
//   device = "cpu"            # for every command that has the flag
//   [serve]                   # for this command
//   port = 8080
//   cors-origin = ["https://a.example", "https://b.example"]
//   model = "story"           # the positional MODEL, where none is given
//
// Of TOML: comments, tables of one name, strings, numbers, booleans and arrays of them; of strings, those on one line.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rocmforge::apps {

struct Setting {
  std::string command;    // the table it stands in; empty: above all tables
  std::string name = {};  // a flag without its dashes
  std::vector<std::string> values = {};
  int line = 0;
};

// Errors: invalid_argument, with the line. A name that stands twice in a table is one.
Result<std::vector<Setting>> parse_settings(std::string_view text);

// Of `given`, else $ROCMFORGE_CONFIG, else the user's config.toml (~/.config/rocmforge), else /etc/rocmforge's; `path`
// is the one that was read, empty if there is none.
// Errors: file_read, where a file is named and cannot be read; those of parse_settings, with the file's name.
Result<std::vector<Setting>> read_settings(const std::string& given, std::string& path);

}  // namespace rocmforge::apps
