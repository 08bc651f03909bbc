#include <fmt/core.h>

#include <algorithm>

#include "option_tree.h"

namespace rocmforge::apps {
namespace {

// Dashes that can be copied, no escapes by accident, no request at the beginning of a line.
std::string roff(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); i++) {
    const char c = text[i];
    const bool begins_line = i == 0 || text[i - 1] == '\n';
    if (begins_line && (c == '.' || c == '\'')) out += "\\&";
    if (c == '-' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string synopsis(const CommandText& command) {
  std::string out = fmt::format(".SH SYNOPSIS\n.B rocmforge {}\n", roff(command.name));
  for (const OptionText& option : command.options) {
    if (option.is_positional) out += fmt::format(".RI [ {} ]\n", roff(option.names[0]));
  }
  return out + ".RI [ OPTIONS ]\n";
}

std::string options_of(const CommandText& command) {
  std::string out;
  for (const OptionText& option : command.options) {
    std::string names;
    for (const std::string& name : option.names) names += (names.empty() ? "" : ", ") + name;
    out += fmt::format(".TP\n.B {}{}\n{}\n", roff(names),
                       option.takes_value && !option.is_positional ? " \\fIVALUE\\fR" : "", roff(option.help));
  }
  return out;
}

}  // namespace

std::string manual_page(const CommandText& root, std::string_view command, std::string_view version,
                        std::string_view footer) {
  const auto found = std::ranges::find(root.commands, command, &CommandText::name);
  const bool is_root = found == root.commands.end();
  const CommandText& shown = is_root ? root : *found;
  const std::string title = is_root ? "rocmforge" : "rocmforge-" + found->name;
  std::string out = fmt::format(".TH {} 1 \"\" \"rocmforge {}\"\n.SH NAME\n{} \\- {}\n", roff(title), roff(version),
                                roff(title), roff(shown.summary));
  if (is_root) {
    out += ".SH SYNOPSIS\n.B rocmforge\n.I COMMAND\n.RI [ OPTIONS ]\n.SH COMMANDS\n";
    for (const CommandText& each : root.commands) {
      out += fmt::format(".TP\n.BR rocmforge\\-{} (1)\n{}\n", roff(each.name), roff(each.summary));
    }
    out += ".SH OPTIONS\n" + options_of(root);
  } else {
    out += synopsis(shown);
    if (!shown.options.empty()) out += ".SH OPTIONS\n" + options_of(shown);
    for (const CommandText& each : shown.commands) {
      out += fmt::format(".SH {} {}\n{}\n", roff(shown.name), roff(each.name), roff(each.summary)) + options_of(each);
    }
  }
  out += fmt::format(R"(.SH FILES
.TP
.I /etc/rocmforge/config.toml, ~/.config/rocmforge/config.toml
Flags as lines \fBname = value\fR, above all tables for every command or in a table of a command's name.
.SH ENVIRONMENT
Each flag \fB\-\-a\-flag\fR is taken from \fBROCMFORGE_A_FLAG\fR where it is not given. Flags win over the environment,
the environment over the file.
.PP
{}
.SH EXIT STATUS
0 good, 1 failed, 2 bad usage{}.
)",
                     roff(footer),
                     is_root || shown.name == "doctor" ? "; doctor: 3 a GPU is here and none can be used" : "");
  if (!is_root) out += ".SH SEE ALSO\n.BR rocmforge (1)\n";
  return out;
}

}  // namespace rocmforge::apps
