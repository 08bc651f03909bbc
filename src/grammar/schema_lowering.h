#pragma once
// Lowers shapes to rules: one rule per combination of schemas that must hold for a value.

#include <map>
#include <vector>

#include "grammar/json_schema.h"
#include "grammar/rules.h"
#include "grammar/schema_reader.h"

namespace rocmforge::grammar {

class SchemaLowering {
 public:
  SchemaLowering(Grammar& grammar, SchemaReader& reader, const SchemaOptions& options);
  // Between tokens, instead of what the options say.
  void set_space(Regex space) { space_ = space; }
  // Adds a rule: the values for which all these schemas hold.
  Result<RuleId> add(const Conjunction& root);
  // Adds a rule: the objects for which they hold.
  Result<RuleId> add_objects(const Conjunction& root);
  // Adds a rule: the members of the objects for which the schemas hold. `raw` reads the same document, with strings in
  // UTF-8; it is used where `members` has raw strings. Both must outlive the call.
  Result<RuleId> add_members(const Conjunction& root, const MemberSyntax& members, SchemaReader& raw);

 private:
  struct Span {
    StateId from, to;
    Guard guard = {};
    Effect effect = {};
  };
  // The undeclared keys that match exactly these of the patterns.
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
  static constexpr uint64_t kCountedUpTo = 1'000'000'000;  // more than any text has

  // The outermost object, while it is lowered.
  struct OuterObject {
    const MemberSyntax* syntax = nullptr;
    SchemaReader* raw = nullptr;
  };
  // A member's key, where it may stand (before the first member, and behind another one), and how it changes the
  // register.
  struct Member {
    Regex key = kNothing;
    std::string_view name = {};  // empty: not declared
    StateId first = 0, next = 0;
    Guard guard = {};
    Effect effect = {};
  };

  Result<void> lower_pending();
  Result<void> add_value(const Conjunction& conjunction, const Span& span, RuleId in_need = UINT32_MAX);
  Result<void> add_member(RuleId rule, const Member& member, const Conjunction& schema, StateId to, bool is_needed);
  Result<void> add_outer_member(RuleId rule, const Member& member, const Conjunction& schema, StateId to,
                                bool is_needed);
  Result<void> add_outer_value(RuleId rule, std::string_view key, const Conjunction& schema);
  void add_key(const Member& member, Regex text, StateId to);
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
  Regex comma();
  Regex object_open() { return outer_.syntax ? kEmptyText : open('{'); }
  Regex object_close() { return outer_.syntax ? outer_.syntax->close : close('}'); }
  Regex empty_object() { return outer_.syntax ? outer_.syntax->close : empty('{', '}'); }

  Grammar& grammar_;
  SchemaReader& reader_;
  SchemaOptions options_;
  Regex space_;
  OuterObject outer_;
  std::map<Conjunction, RuleId> rules_;
  std::vector<std::pair<Conjunction, RuleId>> pending_;
};

}  // namespace rocmforge::grammar
