#include "cli_tree.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

namespace rocmforge::apps {
namespace {

constexpr std::string_view kModel = "model";  // the setting for the positional MODEL

bool is_flag(const CLI::Option& option) {
  return option.get_expected_max() == 0 || option.get_type_size() == 0;
}

// The option that a setting's name stands for; null if the command has none.
const CLI::Option* find_option(const CLI::App& app, const std::string& name) {
  if (name == "config" || name == "help" || name == "version") return nullptr;
  return app.get_option_no_throw(name == kModel ? "MODEL" : "--" + name);
}

Result<void> check_names(const CLI::App& root, const std::vector<Setting>& settings, const std::string& path) {
  for (const Setting& setting : settings) {
    const auto wrong = [&](std::string_view fact) {
      return Error{ErrorCode::invalid_argument, fmt::format("{}: line {}: {}", path, setting.line, fact)};
    };
    const CLI::App* app = setting.command.empty() ? nullptr : find_command(root, setting.command);
    if (!setting.command.empty() && !app) return wrong("'" + setting.command + "' is no command");
    const auto all = root.get_subcommands([](const CLI::App*) { return true; });
    const bool is_known =
        app ? find_option(*app, setting.name) != nullptr : std::ranges::any_of(all, [&](const CLI::App* each) {
          return find_option(*each, setting.name) != nullptr;
        });
    if (!is_known) return wrong("there is no flag '--" + setting.name + "'" + (app ? " of " + app->get_name() : ""));
  }
  return {};
}

// The setting that counts for a command: its own, else one above all tables.
const Setting* find_setting(const std::vector<Setting>& settings, const std::string& command, const std::string& name) {
  const Setting* found = nullptr;
  for (const Setting& setting : settings) {
    if (setting.name != name || (!setting.command.empty() && setting.command != command)) continue;
    if (!found || !setting.command.empty()) found = &setting;
  }
  return found;
}

std::string variable_of(const std::string& name) {
  std::string out = "ROCMFORGE_" + name;
  for (char& c : out) c = c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

Result<void> append(std::vector<std::string>& out, const CLI::Option& option, const std::string& name,
                    const std::vector<std::string>& values, const std::string& source) {
  for (const std::string& value : values) {
    if (!is_flag(option)) {
      out.push_back("--" + name + "=" + value);
    } else if (value == "true" || value == "1") {
      out.push_back("--" + name);
    } else if (value != "false" && value != "0") {
      return Error{ErrorCode::invalid_argument, fmt::format("{}: '{}' is neither true nor false", source, value)};
    }
  }
  return {};
}

}  // namespace

const CLI::App* find_command(const CLI::App& root, const std::string& name) {
  const auto found = root.get_subcommands([&](const CLI::App* each) { return each->get_name() == name; });
  return found.empty() ? nullptr : found[0];
}

CommandText command_text(const CLI::App& app) {
  CommandText out{.name = app.get_name(), .summary = app.get_description()};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    OptionText text{.help = option->get_description(), .is_positional = option->get_positional()};
    text.takes_value = !is_flag(*option);
    if (text.is_positional) text.names = {option->get_name(true)};
    if (!text.is_positional) {
      for (const std::string& name : option->get_snames()) text.names.push_back("-" + name);
      for (const std::string& name : option->get_lnames()) text.names.push_back("--" + name);
    }
    out.options.push_back(std::move(text));
  }
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!each->get_group().empty()) out.commands.push_back(command_text(*each));
  }
  return out;
}

Result<std::vector<std::string>> with_settings(const CLI::App& root, std::vector<std::string> arguments,
                                               const std::vector<Setting>& settings, const std::string& path) {
  TRY(check_names(root, settings, path));
  const auto chosen = root.get_subcommands();
  if (chosen.size() != 1 || !chosen[0]->get_subcommands().empty()) return arguments;
  const CLI::App& app = *chosen[0];
  std::vector<std::string> added;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0) continue;
    if (option->get_positional()) {
      const Setting* setting =
          option->get_name(true) == "MODEL" ? find_setting(settings, app.get_name(), std::string(kModel)) : nullptr;
      if (setting) arguments.insert(arguments.end(), setting->values.begin(), setting->values.end());
      continue;
    }
    if (option->get_lnames().empty()) continue;
    const std::string& name = option->get_lnames()[0];
    if (find_option(app, name) != option) continue;
    const std::string variable = variable_of(name);
    if (const char* value = std::getenv(variable.c_str())) {
      // Keys are read from the environment where they are checked (serve_keys.cpp).
      if (name != "api-key" && name != "admin-key") TRY(append(added, *option, name, {value}, variable));
    } else if (const Setting* setting = find_setting(settings, app.get_name(), name)) {
      TRY(append(added, *option, name, setting->values, fmt::format("{}: line {}", path, setting->line)));
    }
  }
  arguments.insert(arguments.begin() + 1, added.begin(), added.end());
  return arguments;
}

}  // namespace rocmforge::apps
