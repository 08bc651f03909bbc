// The tests of `is`.

#include <array>

#include "chat/jinja/compare.h"
#include "chat/jinja/filters.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/print.h"
#include "chat/jinja/runtime.h"

namespace rocmforge::jinja {
namespace {

template <bool (*kPredicate)(const Value&)>
Result<Value> test(Runtime&, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "this test"));
  return Value::boolean(kPredicate(self));
}

bool is_defined(const Value& v) {
  return !v.is(Kind::undefined);
}
bool is_undefined(const Value& v) {
  return v.is(Kind::undefined);
}
bool is_none(const Value& v) {
  return v.is(Kind::none);
}
bool is_boolean(const Value& v) {
  return v.is(Kind::boolean);
}
bool is_true_itself(const Value& v) {
  return v.is(Kind::boolean) && v.as_boolean();
}
bool is_false_itself(const Value& v) {
  return v.is(Kind::boolean) && !v.as_boolean();
}
bool is_integer(const Value& v) {
  return v.is(Kind::integer);
}
bool is_real(const Value& v) {
  return v.is(Kind::real);
}
bool is_any_number(const Value& v) {
  return v.is_number();
}
bool is_string(const Value& v) {
  return v.is(Kind::string);
}
bool is_mapping(const Value& v) {
  return v.is(Kind::dict);
}
// What has a length and takes subscripts. An undefined value has both.
bool is_subscriptable(const Value& v) {
  return find_length(v).has_value() && !v.is(Kind::dict_view);
}
bool is_walkable(const Value& v) {
  return is_iterable(v) || v.is(Kind::loop);
}
bool is_callable(const Value& v) {
  return v.is(Kind::function) || v.is(Kind::macro) || v.is(Kind::joiner) || v.is(Kind::loop) || v.is(Kind::undefined);
}

template <int kRest>
Result<Value> has_parity(Runtime& rt, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "this test"));
  const Value rest = TRY(arithmetic(rt, BinaryOp::modulo, self, Value::integer(2)));
  return Value::boolean(TRY(equals(rt, rest, Value::integer(kRest))));
}

Result<Value> divisibleby(Runtime& rt, const Value& self, const Args& args) {
  const auto [number] = TRY(bind<1>(args, "divisibleby", {"num"}, 1));
  return Value::boolean(TRY(equals(rt, TRY(arithmetic(rt, BinaryOp::modulo, self, *number)), Value::integer(0))));
}

template <bool kUpper>
Result<Value> is_case(Runtime& rt, const Value& self, const Args& args) {
  return find_string_query(kUpper ? "isupper" : "islower")(rt, Value::string(TRY(to_str(rt, self))), args);
}

Result<Value> sameas(Runtime&, const Value& self, const Args& args) {
  const auto [other] = TRY(bind<1>(args, "sameas", {"other"}, 1));
  return Value::boolean(is_same(self, *other));
}

Result<Value> escaped(Runtime&, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "escaped"));
  return Value::boolean(is_markup(self));
}

template <CompareOp kOp>
Result<Value> compares(Runtime& rt, const Value& self, const Args& args) {
  const auto [other] = TRY(bind<1>(args, "this test", {"other"}, 1, 1));
  return Value::boolean(TRY(compare(rt, kOp, self, *other)));
}

Result<Value> is_in(Runtime& rt, const Value& self, const Args& args) {
  const auto [container] = TRY(bind<1>(args, "in", {"seq"}, 1));
  return Value::boolean(TRY(contains(rt, *container, self)));
}

template <Callable (*kFind)(std::string_view)>
Result<Value> exists(Runtime& rt, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "this test"));
  TRY(check_hashable(rt, self));
  return Value::boolean(self.is(Kind::string) && kFind(self.text()) != nullptr);
}

constexpr auto kTests = std::to_array<NamedCallable>({
    {"defined", test<is_defined>},
    {"undefined", test<is_undefined>},
    {"string", test<is_string>},
    {"none", test<is_none>},
    {"mapping", test<is_mapping>},
    {"iterable", test<is_walkable>},
    {"sequence", test<is_subscriptable>},
    {"boolean", test<is_boolean>},
    {"true", test<is_true_itself>},
    {"false", test<is_false_itself>},
    {"integer", test<is_integer>},
    {"float", test<is_real>},
    {"number", test<is_any_number>},
    {"callable", test<is_callable>},
    {"odd", has_parity<1>},
    {"even", has_parity<0>},
    {"divisibleby", divisibleby},
    {"lower", is_case<false>},
    {"upper", is_case<true>},
    {"sameas", sameas},
    {"escaped", escaped},
    {"in", is_in},
    {"filter", exists<find_filter>},
    {"test", exists<find_test>},
    {"==", compares<CompareOp::equal>},
    {"eq", compares<CompareOp::equal>},
    {"equalto", compares<CompareOp::equal>},
    {"!=", compares<CompareOp::not_equal>},
    {"ne", compares<CompareOp::not_equal>},
    {">", compares<CompareOp::greater>},
    {"gt", compares<CompareOp::greater>},
    {"greaterthan", compares<CompareOp::greater>},
    {">=", compares<CompareOp::greater_equal>},
    {"ge", compares<CompareOp::greater_equal>},
    {"<", compares<CompareOp::less>},
    {"lt", compares<CompareOp::less>},
    {"lessthan", compares<CompareOp::less>},
    {"<=", compares<CompareOp::less_equal>},
    {"le", compares<CompareOp::less_equal>},
});

}  // namespace

Callable find_test(std::string_view name) {
  for (const NamedCallable& entry : kTests) {
    if (entry.name == name) return entry.body;
  }
  return nullptr;
}

}  // namespace rocmforge::jinja
