// Objects as rules. In any order, the register has a bit for each declared key that was written; in the schema's order,
// states tell them apart.
#include <fmt/core.h>

#include <algorithm>
#include <bit>

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
  if (plan.least == 0) grammar_.add_text(from, empty('{', '}'), to);
  if (plan.most == 0 || (plan.properties.empty() && plan.regions.empty())) return {};
  return options_.any_order && plan.properties.size() <= kMaxKeysInSet ? add_in_any_order(rule, plan, from, to)
                                                                       : add_in_order(rule, plan, from, to);
}

// Keys that are not declared: from `first` without a comma, from `next` behind one, and back to `next`.
Result<void> SchemaLowering::add_other_keys(RuleId rule, const ObjectPlan& plan, StateId first, StateId next,
                                            StateId to, const Guard& guard) {
  const uint32_t cap = !plan.counts() ? 0 : plan.most < kCountedUpTo ? counted(plan.most) : counted(plan.least);
  for (const Region& region : plan.regions) {
    const StateId value = grammar_.add_state(rule);
    const Regex key = key_text(region.key);
    if (first != next) grammar_.add_text(first, key, value, guard, {.count_cap = cap});
    grammar_.add_text(next, grammar_.pool.concat(comma(), key), value, guard, {.count_cap = cap});
    TRY(add_value(region.schema, {value, to}));
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
  grammar_.add_text(from, open('{'), first);
  for (size_t i = 0; i < plan.properties.size(); i++) {
    const Property& property = plan.properties[i];
    Guard guard = property.is_required ? Guard{} : room;
    guard.must_be_clear = uint64_t{1} << i;
    const Effect effect{.set = uint64_t{1} << i, .count_cap = cap};
    const StateId value = grammar_.add_state(rule);
    const Regex key = key_text(reader_.scalars().chars().literal(property.key));
    grammar_.add_text(first, key, value, guard, effect);
    grammar_.add_text(next, grammar_.pool.concat(comma(), key), value, guard, effect);
    TRY(add_value(property.schema, {value, next}, property.is_required ? rule : UINT32_MAX));
  }
  TRY(add_other_keys(rule, plan, first, next, next, room));
  Guard last{.must_be_set = required};
  if (plan.counts()) last.least_count = counted(plan.least);
  grammar_.add_text(next, close('}'), to, last);
  return {};
}

Result<void> SchemaLowering::add_in_order(RuleId rule, const ObjectPlan& plan, StateId from, StateId to) {
  const bool is_bounded = plan.most < kCountedUpTo;
  const uint32_t cap = !plan.counts() ? 0 : is_bounded ? counted(plan.most) : counted(plan.least);
  const size_t n = plan.properties.size();
  // States before the i-th property: where no key was written yet, and where one was.
  std::vector<StateId> none(n + 1), some(n + 1);
  for (size_t i = 0; i <= n; i++) none[i] = grammar_.add_state(rule), some[i] = grammar_.add_state(rule);
  grammar_.add_text(from, open('{'), none[0]);
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
    const StateId value = grammar_.add_state(rule);
    const Regex key = key_text(reader_.scalars().chars().literal(property.key));
    grammar_.add_text(none[i], key, value, room, {.count_cap = cap});
    grammar_.add_text(some[i], grammar_.pool.concat(comma(), key), value, room, {.count_cap = cap});
    TRY(add_value(property.schema, {value, some[i + 1]}, property.is_required ? rule : UINT32_MAX));
    if (property.is_required) continue;
    grammar_.add_edge(none[i], EdgeKind::empty, 0, none[i + 1], skip);
    grammar_.add_edge(some[i], EdgeKind::empty, 0, some[i + 1], skip);
  }
  Guard room;
  if (is_bounded) room.most_count = counted(plan.most) - 1;
  TRY(add_other_keys(rule, plan, none[n], some[n], some[n], room));
  Guard last;
  if (plan.counts()) last.least_count = counted(plan.least);
  grammar_.add_text(some[n], close('}'), to, last);
  return {};
}

}  // namespace rocmforge::grammar
