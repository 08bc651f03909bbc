#include "settings.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "user_folders.h"

namespace rocmforge::apps {
namespace {

bool is_bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<std::vector<Setting>> parse() {
    std::vector<Setting> out;
    std::string command;
    for (skip_blank(true); !is_at_end(); skip_blank(true)) {
      if (take('[')) {
        command = TRY(word("a command's name"));
        if (!take(']')) return wrong("']' is missing");
      } else {
        Setting setting{.command = command, .line = line_};
        setting.name = TRY(word("a flag's name"));
        skip_blank(false);
        if (!take('=')) return wrong("'=' is missing behind '" + setting.name + "'");
        skip_blank(false);
        setting.values = TRY(values());
        const bool is_twice = std::ranges::any_of(
            out, [&](const Setting& other) { return other.command == command && other.name == setting.name; });
        if (is_twice) return wrong("'" + setting.name + "' stands here twice");
        out.push_back(std::move(setting));
      }
      skip_blank(false);
      if (!is_at_end() && text_[at_] != '\n') return wrong("something follows a value on its line");
    }
    return out;
  }

 private:
  bool is_at_end() const { return at_ == text_.size(); }
  bool take(char c) {
    if (is_at_end() || text_[at_] != c) return false;
    at_++;
    return true;
  }
  Error wrong(std::string_view fact) const {
    return {ErrorCode::invalid_argument, fmt::format("line {}: {}", line_, fact)};
  }
  void skip_blank(bool over_lines) {
    for (; !is_at_end(); at_++) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') at_++;
      } else if (c == '\n' && over_lines) {
        line_++;
      } else if (c != ' ' && c != '\t' && c != '\r') {
        return;
      }
    }
  }
  Result<std::string> word(std::string_view what) {
    const size_t begin = at_;
    while (!is_at_end() && is_bare(text_[at_])) at_++;
    if (at_ == begin) return wrong(fmt::format("{} is missing", what));
    return std::string(text_.substr(begin, at_ - begin));
  }
  Result<std::vector<std::string>> values() {
    std::vector<std::string> out;
    if (!take('[')) {
      out.push_back(TRY(value()));
      return out;
    }
    for (skip_blank(true); !take(']'); skip_blank(true)) {
      out.push_back(TRY(value()));
      skip_blank(true);
      if (!take(',') && (is_at_end() || text_[at_] != ']')) return wrong("',' or ']' is missing");
    }
    return out;
  }
  Result<std::string> value() {
    if (take('\'')) return text_until('\'', false);
    if (take('"')) return text_until('"', true);
    const size_t begin = at_;
    while (!is_at_end() && (is_bare(text_[at_]) || text_[at_] == '.' || text_[at_] == '+')) at_++;
    std::string bare(text_.substr(begin, at_ - begin));
    if (bare == "true" || bare == "false") return bare;
    std::erase(bare, '_');
    char* end = nullptr;
    if (!bare.empty()) std::strtod(bare.c_str(), &end);
    if (bare.empty() || *end != '\0') return wrong("a value is a number, true, false, a text in quotes or a list");
    return bare;
  }
  Result<std::string> text_until(char quote, bool has_escapes) {
    std::string out;
    while (!take(quote)) {
      if (is_at_end() || text_[at_] == '\n') return wrong("a text does not end on its line");
      const char c = text_[at_++];
      if (c != '\\' || !has_escapes) {
        out += c;
        continue;
      }
      constexpr std::string_view kNames = "btnfr\"\\", kMeant = "\b\t\n\f\r\"\\";
      const size_t found = is_at_end() ? std::string_view::npos : kNames.find(text_[at_]);
      if (found == std::string_view::npos) return wrong("an escape that is not known: '\\' itself is '\\\\'");
      out += kMeant[found];
      at_++;
    }
    return out;
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

Result<std::vector<Setting>> parse_settings(std::string_view text) {
  return Parser(text).parse();
}

Result<std::vector<Setting>> read_settings(const std::string& given, std::string& path) {
  std::vector<std::string> candidates;
  const char* variable = std::getenv("ROCMFORGE_CONFIG");
  const bool is_named = !given.empty() || variable;
  if (is_named) {
    candidates = {given.empty() ? variable : given};
  } else {
    candidates = {user_settings_file(), "/etc/rocmforge/config.toml"};
  }
  for (const std::string& candidate : candidates) {
    std::ifstream file(candidate);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file.good()) {
      if (is_named && !candidate.empty()) {
        return Error{ErrorCode::file_read, fmt::format("'{}' cannot be read", candidate)};
      }
      continue;
    }
    path = candidate;
    auto settings = parse_settings(text.str());
    if (!settings.ok()) return std::move(settings).error().in(candidate);
    return settings;
  }
  return std::vector<Setting>{};
}

}  // namespace rocmforge::apps
