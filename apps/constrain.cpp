#include <fmt/core.h>

#include "base/file.h"
#include "base/json.h"
#include "commands.h"
#include "grammar/compile.h"
#include "grammar/matcher.h"
#include "grammar/sampler.h"
#include "terminal.h"

namespace rocmforge::apps {
namespace {

using namespace grammar;

constexpr uint64_t kMaxSourceBytes = 16u << 20, kMaxTextBytes = 512u << 20;

Result<std::string> read_file(const std::string& path, uint64_t max_bytes) {
  return path == "-" ? read_standard_input(max_bytes) : read_whole_file(path, max_bytes);
}

Result<Source> read_source(const ConstrainCommand& options) {
  Source source;
  const auto take = [&](Notation notation, const std::optional<std::string>& path) -> Result<bool> {
    if (!path) return false;
    source.notation = notation;
    source.text = TRY(read_file(*path, kMaxSourceBytes));
    return true;
  };
  source.schema.any_order = !options.in_order;
  if (TRY(take(Notation::json_schema, options.json_schema)) || TRY(take(Notation::gbnf, options.gbnf)) ||
      TRY(take(Notation::choice, options.choice)) || TRY(take(Notation::lark, options.lark))) {
    return source;
  }
  if (options.regex) {
    source.notation = Notation::regex;
    source.text = *options.regex;
  } else if (options.json_object) {
    source.notation = Notation::json_object;
  } else {
    return Error{ErrorCode::invalid_argument,
                 "constrain: one of --json-schema, --json-object, --gbnf, --regex, --choice and --lark is needed"};
  }
  return source;
}

Result<void> check_lines(const std::shared_ptr<Constraint>& constraint, const std::string& path) {
  const std::string input = TRY(read_file(path, kMaxTextBytes));
  BufferedOutput out;
  size_t number = 0;
  for (std::string_view rest = input; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    number++;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto value = parse_json(line);
    const auto* text = value.ok() ? value->as<std::string>() : nullptr;
    if (!text) {
      return Error{ErrorCode::json_type, fmt::format("{}: line {} is no JSON string", path, number)};
    }
    Matcher matcher(constraint);
    const size_t n = TRY(matcher.accept(*text));
    out.text += n == text->size() && matcher.is_end() ? "accept\n" : fmt::format("reject at {}\n", n);
    TRY(out.print_if_large());
  }
  return out.print_rest();
}

}  // namespace

Result<void> constrain(const ConstrainCommand& options) {
  const auto constraint = TRY(compile(TRY(read_source(options))));
  if (options.check) TRY(check_lines(constraint, *options.check));
  for (uint32_t i = 0; i < options.n_samples; i++) {
    std::string line;
    append_json_string(line, TRY(random_sentence(constraint, {.seed = options.seed + i})));
    TRY(print(line + "\n"));
  }
  return {};
}

}  // namespace rocmforge::apps
