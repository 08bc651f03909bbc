#include "grammar/compile.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "grammar/lark.h"
#include "grammar/regex_parser.h"
#include "grammar/spelling.h"

namespace rocmforge::grammar {
namespace {

constexpr std::string_view kAnyObject = R"({"type": "object"})";

// One of the strings of a JSON array.
Result<Regex> choice_of(std::string_view text, Spelling& chars) {
  if (text.size() > kMaxGrammarBytes) return Error{ErrorCode::limit_exceeded, "choice: more than 1 MiB"};
  const JsonValue choices = TRY(parse_json(text));
  const auto* array = choices.as<JsonArray>();
  const Error wrong{ErrorCode::invalid_argument, "choice: not an array of strings"};
  if (!array || array->empty()) return wrong;
  std::vector<Regex> all;
  for (const JsonValue& one : *array) {
    const auto* choice = one.as<std::string>();
    if (!choice) return wrong;
    all.push_back(chars.literal(*choice));
  }
  return chars.pool().either(std::move(all));
}

RuleId add_text_rule(Grammar& grammar, Regex text) {
  const RuleId rule = grammar.add_rule();
  const StateId end = grammar.add_state(rule);
  grammar.set_final(end);
  grammar.add_text(grammar.start_of(rule), text, end);
  return rule;
}

}  // namespace

Result<RuleId> add_source(Grammar& grammar, const Source& source, const FindToken& find_token) {
  Spelling chars(grammar.pool, Spelling::Form::utf8);
  switch (source.notation) {
    case Notation::json_schema:
      return add_schema_text(grammar, source.text, source.schema);
    case Notation::json_object:
      return add_schema_text(grammar, kAnyObject, source.schema);
    case Notation::gbnf:
      return add_gbnf(grammar, source.text, find_token);
    case Notation::lark:
      return add_lark(grammar, source.text);
    case Notation::regex:
      return add_text_rule(grammar, TRY(parse_regex(source.text, chars)));
    case Notation::choice:
      return add_text_rule(grammar, TRY(choice_of(source.text, chars)));
  }
  RF_UNREACHABLE("a Notation outside its enum");
}

Result<std::shared_ptr<Constraint>> compile(const Source& source, const FindToken& find_token,
                                            std::chrono::milliseconds limit) {
  auto grammar = std::make_unique<Grammar>(limit);
  auto root = add_source(*grammar, source, find_token);
  if (!root.ok() && grammar->pool.is_late()) return grammar->finish().error();  // the cause, not where it was noticed
  grammar->set_root(TRY(std::move(root)));
  return Constraint::make(std::move(grammar));
}

Result<Compiled> ConstraintCache::get(const std::string& key, const std::function<Result<Compiled>()>& make) {
  {
    const std::lock_guard lock(mutex_);
    const auto at = std::ranges::find(entries_, key, &Entry::first);
    if (at != entries_.end() && !at->second.constraint->is_worn()) {
      entries_.splice(entries_.begin(), entries_, at);
      return at->second;
    }
    if (at != entries_.end()) drop(at);  // compiled anew, it begins without states
    make_room();
  }
  Compiled made = TRY(make());
  const std::lock_guard lock(mutex_);
  entries_.emplace_front(key, made);
  n_key_bytes_ += key.size();
  make_room();
  return made;
}

// Half of the memory of all grammars stays free for those at work.
void ConstraintCache::make_room() {
  while (!entries_.empty() && (entries_.size() > kMaxEntries || !keys_.set(n_key_bytes_) ||
                               StateMemory::bytes_of_all() > StateMemory::limits.of_all / 2)) {
    drop(std::prev(entries_.end()));
  }
}

void ConstraintCache::drop(std::list<Entry>::iterator entry) {
  n_key_bytes_ -= entry->first.size();
  entries_.erase(entry);
}

std::string cache_key(const Source& source) {
  const SchemaOptions& schema = source.schema;
  const std::string space = schema.white_space ? fmt::format("{}:{}", schema.white_space->size(), *schema.white_space)
                                               : fmt::format("{}", schema.has_white_space);
  return fmt::format("{} {} {} {}", static_cast<int>(source.notation), schema.any_order, space, source.text);
}

}  // namespace rocmforge::grammar
