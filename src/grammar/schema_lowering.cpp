#include "grammar/schema_lowering.h"

#include <fmt/core.h>

#include <algorithm>

namespace rocmforge::grammar {
namespace {

constexpr size_t kMaxKeysInSet = 64;
constexpr uint32_t kMaxBlanks = 32;

uint32_t counted(uint64_t n) {
  return static_cast<uint32_t>(std::min<uint64_t>(n, UINT32_MAX - 1));
}

}  // namespace

SchemaLowering::SchemaLowering(Grammar& grammar, SchemaReader& reader, const SchemaOptions& options)
    : grammar_(grammar), reader_(reader), options_(options), space_(kEmptyText) {
  RegexPool& pool = grammar.pool;
  if (!options.has_white_space) return;
  const Regex blank = pool.either(pool.byte(' '), pool.byte('\t'));
  space_ =
      pool.either({kEmptyText, pool.byte(' '),
                   pool.concat({pool.optional(pool.byte('\r')), pool.byte('\n'), pool.repeat(blank, 0, kMaxBlanks)})});
}

Regex SchemaLowering::open(char bracket) {
  return grammar_.pool.concat(grammar_.pool.byte(static_cast<uint8_t>(bracket)), space_);
}
Regex SchemaLowering::close(char bracket) {
  return grammar_.pool.concat(space_, grammar_.pool.byte(static_cast<uint8_t>(bracket)));
}
Regex SchemaLowering::empty(char open_bracket, char close_bracket) {
  return grammar_.pool.concat(open(open_bracket), grammar_.pool.byte(static_cast<uint8_t>(close_bracket)));
}
Regex SchemaLowering::comma() {
  return grammar_.pool.concat({space_, grammar_.pool.byte(','), space_});
}

Result<RuleId> SchemaLowering::add(const Conjunction& root) {
  const RuleId rule = TRY(rule_of(root));
  TRY(lower_pending());
  return rule;
}

Result<RuleId> SchemaLowering::add_objects(const Conjunction& root) {
  const RuleId rule = grammar_.add_rule();
  const StateId end = grammar_.add_state(rule);
  grammar_.set_final(end);
  for (const Shape& shape : *TRY(reader_.shapes(root))) {
    if (shape.type != JsonType::object) continue;
    // Guards can make an alternative impossible: each has a rule.
    const RuleId inner = grammar_.add_rule();
    const StateId to = grammar_.add_state(inner);
    grammar_.set_final(to);
    grammar_.add_call(grammar_.start_of(rule), inner, end);
    TRY(lower_object(inner, shape, grammar_.start_of(inner), to));
  }
  outer_ = {};
  TRY(lower_pending());
  return rule;
}

Result<RuleId> SchemaLowering::add_members(const Conjunction& root, const MemberSyntax& members, SchemaReader& raw) {
  outer_ = {&members, &raw};
  return add_objects(root);
}

Result<void> SchemaLowering::lower_pending() {
  while (!pending_.empty()) {
    const auto [conjunction, rule] = std::move(pending_.back());
    pending_.pop_back();
    TRY(lower(rule, *TRY(reader_.shapes(conjunction))));
    if (grammar_.is_too_large()) break;  // finish() says so
  }
  return {};
}

Result<RuleId> SchemaLowering::rule_of(const Conjunction& conjunction) {
  const auto known = rules_.find(conjunction);
  if (known != rules_.end()) return known->second;
  const RuleId rule = grammar_.add_rule();
  rules_.emplace(conjunction, rule);
  pending_.emplace_back(conjunction, rule);
  return rule;
}

Result<void> SchemaLowering::add_value(const Conjunction& conjunction, const Span& span, RuleId in_need) {
  const Shapes& shapes = *TRY(reader_.shapes(conjunction));
  const bool is_scalar = std::ranges::none_of(
      shapes, [](const Shape& s) { return s.type == JsonType::array || s.type == JsonType::object; });
  if (is_scalar) {
    grammar_.add_text(span.from, reader_.scalar_text(shapes), span.to, span.guard, span.effect);
    if (!shapes.empty()) return {};
  }
  const RuleId rule = TRY(rule_of(conjunction));
  grammar_.add_call(span.from, rule, span.to, span.guard, span.effect);
  if (in_need != UINT32_MAX) grammar_.need(in_need, rule);
  return {};
}

// What has alternatives has a rule for each of them that guards can make impossible.
Result<void> SchemaLowering::lower(RuleId rule, const Shapes& shapes) {
  const StateId start = grammar_.start_of(rule), end = grammar_.add_state(rule);
  grammar_.set_final(end);
  grammar_.add_text(start, reader_.scalar_text(shapes), end);
  for (const Shape& shape : shapes) {
    if (shape.type != JsonType::array && shape.type != JsonType::object) continue;
    RuleId inner = rule;
    StateId from = start, to = end;
    if (shapes.size() > 1) {
      inner = grammar_.add_rule();
      from = grammar_.start_of(inner);
      to = grammar_.add_state(inner);
      grammar_.set_final(to);
      grammar_.add_call(start, inner, end);
    }
    if (shape.type == JsonType::object) {
      TRY(lower_object(inner, shape, from, to));
    } else if (shape.array.is_unique && shape.array.most > 1) {
      TRY(lower_unique(inner, shape, from, to));
    } else {
      TRY(lower_array(inner, shape, from, to));
    }
  }
  return {};
}

Result<void> SchemaLowering::lower_array(RuleId rule, const Shape& shape, StateId from, StateId to) {
  const ArrayShape& a = shape.array;
  uint64_t most = a.most;
  uint64_t n_prefix = a.prefix.size();
  for (size_t i = 0; i < a.prefix.size() && i < most; i++) {
    if (TRY(reader_.is_empty(a.prefix[i]))) most = std::min<uint64_t>(most, i);
  }
  n_prefix = std::min(n_prefix, most);
  if (most > n_prefix && TRY(reader_.is_empty(a.rest))) most = n_prefix;
  if (most < a.least) return {};
  if (a.contains.size() > 1) {
    return Error{ErrorCode::unsupported,
                 fmt::format("schema: 'contains' at '{}': more than one for an array is not supported",
                             shape.pointer + "/contains")};
  }
  bool has_contains = !a.contains.empty() && (a.contains[0].least > 0 || a.contains[0].most != kNoLimit);
  uint64_t least = a.least;
  ArrayShape::Contains c;
  std::vector<Conjunction> outside;  // items that do not match, as a union
  if (has_contains) {
    c = a.contains[0];
    if (!a.prefix.empty()) {
      return Error{ErrorCode::unsupported,
                   fmt::format("schema: 'contains' at '{}': not supported together with 'prefixItems'",
                               shape.pointer + "/contains")};
    }
    for (const SignedSchema s : c.schema) {
      Conjunction one = s == kFalseSchema ? a.rest : merge(a.rest, {-s});
      auto is_empty = reader_.shapes(one);
      if (!is_empty.ok()) {
        return Error{is_empty.error().code, fmt::format("schema: 'contains' at '{}': {}", shape.pointer + "/contains",
                                                        is_empty.error().message)};
      }
      if (!TRY(reader_.is_empty(one))) outside.push_back(std::move(one));
    }
    const bool none_matches = TRY(reader_.is_empty(merge(a.rest, c.schema)));
    if (none_matches && c.least > 0) return {};
    least = std::max(least, c.least);
    if (outside.empty()) most = std::min(most, c.most);
    if (c.least > c.most || least > most) return {};
    has_contains = !outside.empty() && !none_matches;
  }
  const bool is_bounded = most < kCountedUpTo;
  const bool counts = is_bounded || least > n_prefix + 1 || has_contains;
  const uint32_t cap = !counts ? 0 : is_bounded ? counted(most) : counted(std::max<uint64_t>(least, 1));
  const uint32_t other_cap = !has_contains ? 0 : counted(c.most != kNoLimit ? std::max<uint64_t>(c.most, 1) : c.least);

  // One item from `at` to `next`; both sides of `contains` when there is one.
  const auto add_item = [&](const Conjunction& schema, StateId at, StateId next, bool is_needed) -> Result<void> {
    Guard room;
    if (is_bounded) room.most_count = counted(most) - 1;
    if (!has_contains) {
      return add_value(schema, {at, next, room, {.count_cap = cap}}, is_needed ? rule : UINT32_MAX);
    }
    Guard matching = room, other = room;
    if (c.most != kNoLimit) matching.most_other = counted(c.most) - 1;
    if (is_bounded) {
      other.wanted_other = counted(c.least);
      other.other_slots = counted(most);
    }
    if (c.most > 0) {
      TRY(add_value(merge(schema, c.schema), {at, next, matching, {.count_cap = cap, .other_cap = other_cap}}));
    }
    for (const Conjunction& one : outside) TRY(add_value(one, {at, next, other, {.count_cap = cap}}));
    return {};
  };
  Guard last;
  if (counts) last.least_count = counted(least);
  if (has_contains) last.least_other = counted(c.least);
  if (has_contains && c.least > 0) grammar_.need(rule, TRY(rule_of(merge(a.rest, c.schema))));

  if (least == 0) grammar_.add_text(from, empty('[', ']'), to);
  if (most == 0) return {};
  StateId at = grammar_.add_state(rule);
  grammar_.add_text(from, open('['), at);
  for (size_t i = 0; i < n_prefix; i++) {
    const StateId after = grammar_.add_state(rule);
    TRY(add_item(a.prefix[i], at, after, i < least));
    Guard guard = last;
    guard.least_count = 0;
    if (i + 1 >= least) grammar_.add_text(after, close(']'), to, guard);
    if (i + 1 == most) return {};
    at = grammar_.add_state(rule);
    grammar_.add_text(after, comma(), at);
  }
  const StateId after = grammar_.add_state(rule);
  TRY(add_item(a.rest, at, after, n_prefix < least));
  grammar_.add_text(after, close(']'), to, last);
  const StateId again = grammar_.add_state(rule);
  Guard more;
  if (is_bounded) more.most_count = counted(most) - 1;
  grammar_.add_text(after, comma(), again, more);
  TRY(add_item(a.rest, again, after, false));
  return {};
}

// Items that are all different: for values that are few.
Result<void> SchemaLowering::lower_unique(RuleId rule, const Shape& shape, StateId from, StateId to) {
  const ArrayShape& a = shape.array;
  const auto refused = [&](std::string_view why) {
    return Error{ErrorCode::unsupported,
                 fmt::format("schema: 'uniqueItems' at '{}': {}", shape.pointer + "/uniqueItems", why)};
  };
  if (!a.contains.empty()) return refused("not supported together with 'contains'");
  for (const Conjunction& item : a.prefix) {
    if (!TRY(reader_.is_empty(item))) return refused("not supported together with 'prefixItems'");
  }
  if (!a.prefix.empty()) {  // no item is possible
    if (a.least == 0) grammar_.add_text(from, empty('[', ']'), to);
    return {};
  }
  const Shapes& items = *TRY(reader_.shapes(a.rest));
  std::vector<Regex> values;
  RegexPool& pool = grammar_.pool;
  Scalars& scalars = reader_.scalars();
  for (const Shape& item : items) {
    if (item.type == JsonType::null || item.type == JsonType::boolean) {
      if (item.type == JsonType::null) values.push_back(scalars.null_word());
      if (item.type == JsonType::boolean && item.has_false) values.push_back(scalars.boolean(false));
      if (item.type == JsonType::boolean && item.has_true) values.push_back(scalars.boolean(true));
    } else if (item.is_finite) {
      for (const std::string& value : item.values) {
        values.push_back(item.type == JsonType::number ? scalars.equal_to(value)
                                                       : scalars.quoted(scalars.chars().literal(value)));
      }
    } else {
      return refused("only for items of an enumeration");
    }
  }
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (values.size() > kMaxKeysInSet) return refused(fmt::format("more than {} different values", kMaxKeysInSet));
  const uint64_t most = std::min<uint64_t>(a.most, values.size());
  if (a.least > most) return {};
  if (a.least == 0) grammar_.add_text(from, empty('[', ']'), to);
  if (most == 0) return {};
  const StateId first = grammar_.add_state(rule), after = grammar_.add_state(rule);
  grammar_.add_text(from, open('['), first);
  for (size_t i = 0; i < values.size(); i++) {
    const Guard guard{.must_be_clear = uint64_t{1} << i, .most_count = counted(most) - 1};
    const Effect effect{.set = uint64_t{1} << i, .count_cap = counted(most)};
    grammar_.add_text(first, values[i], after, guard, effect);
    grammar_.add_text(after, pool.concat(comma(), values[i]), after, guard, effect);
  }
  grammar_.add_text(after, close(']'), to, {.least_count = counted(a.least)});
  return {};
}

}  // namespace rocmforge::grammar
