#include "grammar/compile.h"

#include <fmt/core.h>

#include "grammar/lark.h"
#include "grammar/regex_parser.h"
#include "grammar/spelling.h"

namespace rocmforge::grammar {
namespace {

constexpr std::string_view kAnyObject = R"({"type": "object"})";

Result<std::unique_ptr<Grammar>> grammar_of(const Source& source, const FindToken& find_token) {
  switch (source.notation) {
    case Notation::json_schema:
      return compile_schema_text(source.text, source.schema);
    case Notation::json_object:
      return compile_schema_text(kAnyObject, source.schema);
    case Notation::gbnf:
      return compile_gbnf(source.text, find_token);
    case Notation::lark:
      return compile_lark(source.text);
    default:
      break;
  }
  auto grammar = std::make_unique<Grammar>();
  Spelling chars(grammar->pool, Spelling::Form::utf8);
  Regex text = kNothing;
  if (source.notation == Notation::regex) {
    text = TRY(parse_regex(source.text, chars));
  } else {
    if (source.text.size() > kMaxGrammarBytes) return Error{ErrorCode::limit_exceeded, "choice: more than 1 MiB"};
    const JsonValue choices = TRY(parse_json(source.text));
    const auto* array = choices.as<JsonArray>();
    if (!array || array->empty()) return Error{ErrorCode::invalid_argument, "choice: not an array of strings"};
    std::vector<Regex> all;
    for (const JsonValue& one : *array) {
      const auto* choice = one.as<std::string>();
      if (!choice) return Error{ErrorCode::invalid_argument, "choice: not an array of strings"};
      all.push_back(chars.literal(*choice));
    }
    text = grammar->pool.either(std::move(all));
  }
  const RuleId root = grammar->add_rule();
  const StateId end = grammar->add_state(root);
  grammar->set_final(end);
  grammar->add_text(grammar->start_of(root), text, end);
  grammar->set_root(root);
  return grammar;
}

}  // namespace

Result<std::shared_ptr<Constraint>> compile(const Source& source, const FindToken& find_token) {
  return Constraint::make(TRY(grammar_of(source, find_token)));
}

Result<std::shared_ptr<Constraint>> ConstraintCache::get(const Source& source) {
  const std::string key = fmt::format("{} {} {} {}", static_cast<int>(source.notation), source.schema.any_order,
                                      source.schema.has_white_space, source.text);
  {
    const std::lock_guard lock(mutex_);
    for (auto at = entries_.begin(); at != entries_.end(); ++at) {
      if (at->first != key) continue;
      entries_.splice(entries_.begin(), entries_, at);
      return at->second;
    }
  }
  auto made = TRY(compile(source, find_token_));
  const std::lock_guard lock(mutex_);
  entries_.emplace_front(key, made);
  if (entries_.size() > kMaxEntries) entries_.pop_back();
  return made;
}

}  // namespace rocmforge::grammar
