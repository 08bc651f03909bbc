// Objects as rules. In any order, the register has a bit for each declared key that was written; in the schema's order,
// states tell them apart.
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "grammar/schema_lowering.h"

namespace rocmforge::grammar {
namespace {

constexpr size_t kMaxKeysInSet = 64;
constexpr size_t kMaxPatterns = 8;

uint32_t counted(uint64_t n) {
  return static_cast<uint32_t>(std::min<uint64_t>(n, UINT32_MAX - 1));
}

}  // namespace

Result<SchemaLowering::ObjectPlan> SchemaLowering::plan_object(const Shape& shape) {
  const ObjectShape& o = shape.object;
  Spelling& chars = reader_.scalars().chars();
  ObjectPlan plan{.properties = {}, .regions = {}, .least = o.least, .most = o.most};
  std::vector<std::string> keys;
  const auto add_key = [&](const std::string& key) {
    if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  };
  for (const ObjectShape::Clause& clause : o.clauses) {
    for (const auto& [key, schema] : clause.properties) add_key(key);
  }
  for (const std::string& key : o.required) add_key(key);
  for (const std::string& key : keys) {
    Property property{.key = key, .schema = {}};
    for (const ObjectShape::Clause& clause : o.clauses) {
      property.schema = merge(property.schema, schema_of_key(clause, key, reader_.scalars()));
    }
    property.is_required = std::ranges::find(o.required, key) != o.required.end();
    const bool is_named = std::ranges::all_of(o.names, [&](Regex name) { return chars.matches(name, key); });
    if (!is_named || TRY(reader_.is_empty(property.schema))) {
      plan.is_possible &= !property.is_required;
      continue;
    }
    plan.n_required += property.is_required;
    plan.properties.push_back(std::move(property));
  }
  TRY(add_regions(plan, shape));
  plan.least = std::max(plan.least, plan.n_required);
  // Keys that are not declared may occur twice, and would count twice.
  if (!plan.regions.empty() && plan.least > plan.n_required + 1) {
    return Error{ErrorCode::unsupported,
                 fmt::format("schema: 'minProperties' at '{}': with keys that are not declared, at most one more than "
                             "'required' names",
                             shape.pointer + "/minProperties")};
  }
  if (plan.regions.empty()) {
    if (plan.most >= plan.properties.size()) plan.most = kNoLimit;  // there are no more
    plan.is_possible &= plan.least <= plan.properties.size();
  }
  plan.is_possible &= plan.least <= plan.most;
  return plan;
}

// Keys that are not declared, apart by the patterns that they match.
Result<void> SchemaLowering::add_regions(ObjectPlan& plan, const Shape& shape) {
  const ObjectShape& o = shape.object;
  RegexPool& pool = grammar_.pool;
  Spelling& chars = reader_.scalars().chars();
  std::vector<Regex> patterns, declared;
  for (const ObjectShape::Clause& clause : o.clauses) {
    for (const auto& [pattern, schema] : clause.patterns) {
      if (std::ranges::find(patterns, pattern) == patterns.end()) patterns.push_back(pattern);
    }
    for (const auto& [key, schema] : clause.properties) declared.push_back(chars.literal(key));
  }
  for (const std::string& key : o.required) declared.push_back(chars.literal(key));
  if (patterns.size() > kMaxPatterns) {
    return Error{ErrorCode::limit_exceeded, fmt::format("schema: 'patternProperties' at '{}': more than {} patterns",
                                                        shape.pointer + "/patternProperties", kMaxPatterns)};
  }
  for (uint32_t set = 0; set < 1u << patterns.size(); set++) {
    Conjunction schema;
    for (const ObjectShape::Clause& clause : o.clauses) {
      bool is_known = false;
      for (const auto& [pattern, inner] : clause.patterns) {
        const auto i = std::ranges::find(patterns, pattern) - patterns.begin();
        if ((set >> i & 1) != 0) schema = merge(schema, inner), is_known = true;
      }
      if (!is_known) schema = merge(schema, clause.additional);
    }
    if (TRY(reader_.is_empty(schema))) continue;
    std::vector<Regex> tests = o.names;
    for (size_t i = 0; i < patterns.size(); i++) {
      tests.push_back((set >> i & 1) != 0 ? patterns[i] : pool.negate(patterns[i]));
    }
    tests.push_back(chars.any_text());
    if (!declared.empty()) tests.push_back(pool.negate(pool.either(declared)));
    const Regex key = pool.both(std::move(tests));
    if (pool.is_alive(key)) plan.regions.push_back({key, std::move(schema)});
  }
  return {};
}

Result<void> SchemaLowering::lower_object(RuleId rule, const Shape& shape, StateId from, StateId to) {
  const ObjectPlan plan = TRY(plan_object(shape));
  if (!plan.is_possible) return {};
  if (plan.least == 0) grammar_.add_text(from, empty_object(), to);
  if (plan.most == 0 || (plan.properties.empty() && plan.regions.empty())) return {};
  return options_.any_order && plan.properties.size() <= kMaxKeysInSet ? add_in_any_order(rule, plan, from, to)
                                                                       : add_in_order(rule, plan, from, to);
}

void SchemaLowering::add_key(const Member& member, Regex text, StateId to) {
  const Regex separator = outer_.syntax ? outer_.syntax->separator : comma();
  if (member.first != member.next) grammar_.add_text(member.first, text, to, member.guard, member.effect);
  grammar_.add_text(member.next, grammar_.pool.concat(separator, text), to, member.guard, member.effect);
}

Result<void> SchemaLowering::add_member(RuleId rule, const Member& member, const Conjunction& schema, StateId to,
                                        bool is_needed) {
  if (outer_.syntax) return add_outer_member(rule, member, schema, to, is_needed);
  RegexPool& pool = grammar_.pool;
  const StateId value = grammar_.add_state(rule);
  add_key(member, pool.concat({reader_.scalars().key(member.key), space_, pool.byte(':'), space_}), value);
  return add_value(schema, {value, to}, is_needed ? rule : UINT32_MAX);
}

Result<void> SchemaLowering::add_outer_member(RuleId rule, const Member& member, const Conjunction& schema, StateId to,
                                              bool is_needed) {
  RegexPool& pool = grammar_.pool;
  const StateId value = grammar_.add_state(rule);
  const RuleId values = grammar_.add_rule();
  const Regex allowed = outer_.syntax->key;
  Regex key = kNothing;
  if (member.name.empty()) {
    key = pool.both(member.key, allowed);
  } else if (pool.matches(allowed, member.name)) {
    key = pool.literal(member.name);
  }
  if (key != kNothing) add_key(member, pool.concat(outer_.syntax->key_open, key), value);
  grammar_.add_call(value, values, to);
  if (is_needed) grammar_.need(rule, values);
  return add_outer_value(values, member.name, schema);
}

// Between tags: strings as they are, other values as elsewhere.
Result<void> SchemaLowering::add_outer_value(RuleId rule, std::string_view key, const Conjunction& schema) {
  RegexPool& pool = grammar_.pool;
  const MemberSyntax& syntax = *outer_.syntax;
  const StateId start = grammar_.start_of(rule), value_end = grammar_.add_state(rule), end = grammar_.add_state(rule);
  grammar_.set_final(end);
  grammar_.add_text(value_end, syntax.value_close, end);
  const bool has_raw = static_cast<bool>(syntax.reading);
  const StringReading reading = has_raw ? syntax.reading(key) : StringReading::or_quoted;
  std::map<Regex, Shapes> by_key_close;
  for (const Shape& shape : *TRY(reader_.shapes(schema))) {
    if (shape.type == JsonType::string && reading != StringReading::or_quoted) continue;
    by_key_close[syntax.key_close[static_cast<size_t>(shape.type)]].push_back(shape);
  }
  for (const auto& [key_close, shapes] : by_key_close) {
    const StateId value = grammar_.add_state(rule);
    const RuleId values = grammar_.add_rule();
    grammar_.add_text(start, key_close, value);
    grammar_.add_call(value, values, value_end);
    const OuterObject outer = std::exchange(outer_, {});  // objects inside are written as elsewhere
    TRY(lower(values, shapes));
    outer_ = outer;
  }
  if (!has_raw) return {};
  std::vector<Regex> texts;
  for (const Shape& shape : *TRY(outer_.raw->shapes(schema))) {
    if (shape.type == JsonType::string) texts.push_back(shape.text);
  }
  const Regex allowed = reading == StringReading::always ? syntax.raw_text : syntax.other_raw_text;
  const Regex text = pool.both(pool.either(std::move(texts)), allowed);
  if (!pool.is_alive(text)) return {};
  const StateId value = grammar_.add_state(rule);
  grammar_.add_text(start, syntax.key_close[static_cast<size_t>(JsonType::string)], value);
  grammar_.add_text(value, text, value_end);
  return {};
}

// Keys that are not declared: from `first` without a comma, from `next` behind one, and back to `next`.
Result<void> SchemaLowering::add_other_keys(RuleId rule, const ObjectPlan& plan, StateId first, StateId next,
                                            StateId to, const Guard& guard) {
  const uint32_t cap = !plan.counts() ? 0 : plan.most < kCountedUpTo ? counted(plan.most) : counted(plan.least);
  for (const Region& region : plan.regions) {
    const Member member{region.key, {}, first, next, guard, {.count_cap = cap}};
    TRY(add_member(rule, member, region.schema, to, false));
  }
  return {};
}

Result<void> SchemaLowering::add_in_any_order(RuleId rule, const ObjectPlan& plan, StateId from, StateId to) {
  const bool is_bounded = plan.most < kCountedUpTo;
  const uint32_t cap = !plan.counts() ? 0 : is_bounded ? counted(plan.most) : counted(plan.least);
  uint64_t required = 0;
  for (size_t i = 0; i < plan.properties.size(); i++) {
    required |= uint64_t{plan.properties[i].is_required} << i;
  }
  Guard room;  // for what is not required
  if (is_bounded) {
    room.wanted = required;
    room.slots = counted(plan.most);
  }
  const StateId first = grammar_.add_state(rule), next = grammar_.add_state(rule);
  grammar_.add_text(from, object_open(), first);
  for (size_t i = 0; i < plan.properties.size(); i++) {
    const Property& property = plan.properties[i];
    Guard guard = property.is_required ? Guard{} : room;
    guard.must_be_clear = uint64_t{1} << i;
    const Effect effect{.set = uint64_t{1} << i, .count_cap = cap};
    const Regex key = reader_.scalars().chars().literal(property.key);
    TRY(add_member(rule, {key, property.key, first, next, guard, effect}, property.schema, next, property.is_required));
  }
  TRY(add_other_keys(rule, plan, first, next, next, room));
  Guard last{.must_be_set = required};
  if (plan.counts()) last.least_count = counted(plan.least);
  grammar_.add_text(next, object_close(), to, last);
  return {};
}

Result<void> SchemaLowering::add_in_order(RuleId rule, const ObjectPlan& plan, StateId from, StateId to) {
  const bool is_bounded = plan.most < kCountedUpTo;
  const uint32_t cap = !plan.counts() ? 0 : is_bounded ? counted(plan.most) : counted(plan.least);
  const size_t n = plan.properties.size();
  // States before the i-th property: where no key was written yet, and where one was.
  std::vector<StateId> none(n + 1), some(n + 1);
  for (size_t i = 0; i <= n; i++) none[i] = grammar_.add_state(rule), some[i] = grammar_.add_state(rule);
  grammar_.add_text(from, object_open(), none[0]);
  uint64_t n_required_left = plan.n_required;
  for (size_t i = 0; i < n; i++) {
    const Property& property = plan.properties[i];
    n_required_left -= property.is_required;
    Guard room, skip;
    if (is_bounded && !property.is_required) {
      if (plan.most <= n_required_left) {
        room.least_count = UINT32_MAX;  // never
        room.most_count = 0;
      } else {
        room.most_count = counted(plan.most - n_required_left - 1);
      }
    }
    // What is left must be enough.
    const uint64_t n_left = n - i - 1;
    if (plan.counts() && plan.regions.empty() && plan.least > n_left) skip.least_count = counted(plan.least - n_left);
    const Regex key = reader_.scalars().chars().literal(property.key);
    const Member member{key, property.key, none[i], some[i], room, {.count_cap = cap}};
    TRY(add_member(rule, member, property.schema, some[i + 1], property.is_required));
    if (property.is_required) continue;
    grammar_.add_edge(none[i], EdgeKind::empty, 0, none[i + 1], skip);
    grammar_.add_edge(some[i], EdgeKind::empty, 0, some[i + 1], skip);
  }
  Guard room;
  if (is_bounded) room.most_count = counted(plan.most) - 1;
  TRY(add_other_keys(rule, plan, none[n], some[n], some[n], room));
  Guard last;
  if (plan.counts()) last.least_count = counted(plan.least);
  grammar_.add_text(some[n], object_close(), to, last);
  return {};
}

}  // namespace rocmforge::grammar
