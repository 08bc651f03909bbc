#include <fmt/core.h>

#include <algorithm>

#include "option_tree.h"

// Every script offers commands, then a command's flags, then files; `rocmforge models --json` is not asked, so that a
// key press never opens a model.

namespace rocmforge::apps {
namespace {

// For a text in single quotes: ' ends it, \' is one, ' begins it again.
std::string in_single_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// The help up to its first bracket or semicolon: what fits beside a name.
std::string short_help(const std::string& help) {
  const size_t end = std::min(help.find(" ("), help.find(';'));
  return help.substr(0, end);
}

std::string flags_of(const CommandText& command) {
  std::string out;
  for (const OptionText& option : command.options) {
    if (option.is_positional) continue;
    for (const std::string& name : option.names) out += (out.empty() ? "" : " ") + name;
  }
  return out;
}

std::string bash_script(const CommandText& root) {
  std::string names, cases;
  for (const CommandText& command : root.commands) {
    names += (names.empty() ? "" : " ") + command.name;
    cases += fmt::format("    {}) flags='{}' ;;\n", command.name, flags_of(command));
  }
  return fmt::format(R"(# bash completion of rocmforge
_rocmforge() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} flags='{}'
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W '{} {}' -- "$word")
    return
  fi
  case ${{COMP_WORDS[1]}} in
{}  esac
  case $word in
    -*) mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$word") ;;
    *) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
  esac
}}
complete -F _rocmforge rocmforge
)",
                     flags_of(root), names, flags_of(root), cases);
}

// A description inside _arguments: brackets and colons are its own.
std::string zsh_help(const std::string& help) {
  std::string out;
  for (const char c : short_help(help)) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_script(const CommandText& root) {
  std::string names, cases;
  for (const CommandText& command : root.commands) {
    names += fmt::format("    {}\n", in_single_quotes(command.name + ":" + zsh_help(command.summary)));
    cases += fmt::format("    {}) _arguments", command.name);
    for (const OptionText& option : command.options) {
      for (const std::string& name : option.names) {
        if (option.is_positional) continue;
        const std::string value = option.takes_value ? ":value:_files" : "";
        cases += " \\\n      " + in_single_quotes("*" + name + "[" + zsh_help(option.help) + "]" + value);
      }
    }
    cases += " \\\n      '*:file:_files' ;;\n";
  }
  return fmt::format(R"(#compdef rocmforge
_rocmforge() {{
  local -a commands
  commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{}  esac
}}
_rocmforge "$@"
)",
                     names, cases);
}

std::string fish_script(const CommandText& root) {
  std::string out = "# fish completion of rocmforge\n";
  for (const CommandText& command : root.commands) {
    out += fmt::format("complete -c rocmforge -n __fish_use_subcommand -f -a {} -d {}\n", command.name,
                       in_single_quotes(short_help(command.summary)));
  }
  for (const CommandText& command : root.commands) {
    for (const OptionText& option : command.options) {
      if (option.is_positional) continue;
      out += fmt::format("complete -c rocmforge -n '__fish_seen_subcommand_from {}'", command.name);
      for (const std::string& name : option.names) {
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      out += fmt::format("{} -d {}\n", option.takes_value ? " -r" : "", in_single_quotes(short_help(option.help)));
    }
  }
  return out;
}

}  // namespace

std::string completion_script(const CommandText& root, Shell shell) {
  switch (shell) {
    case Shell::bash:
      return bash_script(root);
    case Shell::zsh:
      return zsh_script(root);
    case Shell::fish:
      return fish_script(root);
  }
  return "";
}

}  // namespace rocmforge::apps
