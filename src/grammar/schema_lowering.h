#pragma once
// Shapes as rules: one for each combination of schemas that a value is held to.

#include <map>
#include <vector>

#include "grammar/json_schema.h"
#include "grammar/rules.h"
#include "grammar/schema_reader.h"

namespace rocmforge::grammar {

class SchemaLowering {
 public:
  SchemaLowering(Grammar& grammar, SchemaReader& reader, const SchemaOptions& options);
  // Makes the root rule of values that meet all these schemas.
  Result<void> run(const Conjunction& root);

 private:
  struct Span {
    StateId from, to;
    Guard guard = {};
    Effect effect = {};
  };
  // An undeclared key: those that match exactly some of the patterns.
  struct Region {
    Regex key;
    Conjunction schema;
  };
  struct Property {
    std::string key;
    Conjunction schema;
    bool is_required = false;
  };
  struct ObjectPlan {
    std::vector<Property> properties;
    std::vector<Region> regions;
    uint64_t least = 0, most = kNoLimit;
    uint64_t n_required = 0;
    bool is_possible = true;
    bool counts() const { return least > n_required || most < kCountedUpTo; }
  };
  static constexpr uint64_t kCountedUpTo = 1'000'000'000;  // no text has more

  Result<void> add_value(const Conjunction& conjunction, const Span& span, RuleId in_need = UINT32_MAX);
  Result<RuleId> rule_of(const Conjunction& conjunction);
  Result<void> lower(RuleId rule, const Shapes& shapes);
  Result<void> lower_array(RuleId rule, const Shape& shape, StateId from, StateId to);
  Result<void> lower_unique(RuleId rule, const Shape& shape, StateId from, StateId to);
  Result<void> lower_object(RuleId rule, const Shape& shape, StateId from, StateId to);
  Result<ObjectPlan> plan_object(const Shape& shape);
  Result<void> add_regions(ObjectPlan& plan, const Shape& shape);
  Result<void> add_in_any_order(RuleId rule, const ObjectPlan& plan, StateId from, StateId to);
  Result<void> add_in_order(RuleId rule, const ObjectPlan& plan, StateId from, StateId to);
  Result<void> add_other_keys(RuleId rule, const ObjectPlan& plan, StateId first, StateId next, StateId to,
                              const Guard& guard);
  Regex open(char bracket);
  Regex close(char bracket);
  Regex empty(char open_bracket, char close_bracket);
  Regex key_text(Regex key);
  Regex comma();

  Grammar& grammar_;
  SchemaReader& reader_;
  SchemaOptions options_;
  Regex space_;
  std::map<Conjunction, RuleId> rules_;
  std::vector<std::pair<Conjunction, RuleId>> pending_;
};

}  // namespace rocmforge::grammar
