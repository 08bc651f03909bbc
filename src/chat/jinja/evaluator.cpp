// The interpreter's expressions.

#include "chat/jinja/interpreter.h"
#include "chat/jinja/methods.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/overload.h"
#include "chat/jinja/print.h"

namespace rocmforge::jinja {

Result<Value> Interpreter::evaluate(const Expr& expression) {
  // Names and constants cost nothing of their own: what uses them is charged.
  if (const auto* name = std::get_if<Name>(&expression.what)) return lookup(name->id);
  if (const auto* constant = std::get_if<Constant>(&expression.what)) return evaluate_constant(constant->id);
  const Level level(*this);
  TRY(check_level());
  TRY(rt_.charge(1));
  auto result = evaluate_node(expression);
  if (!result.ok() && !failed_at_) failed_at_ = expression.at;
  return result;
}

Result<Value> Interpreter::evaluate_node(const Expr& expression) {
  return std::visit(
      Overload{
          [&](const Constant& c) { return evaluate_constant(c.id); },
          [&](const Name& name) -> Result<Value> { return lookup(name.id); },
          [&](const ListDisplay& list) -> Result<Value> { return Value::list(TRY(evaluate_all(list.items))); },
          [&](const TupleDisplay& tuple) -> Result<Value> { return Value::tuple(TRY(evaluate_all(tuple.items))); },
          [&](const DictDisplay& dict) { return evaluate_dict(dict); },
          [&](const Unary& unary) { return evaluate_unary(unary); },
          [&](const Arithmetic& chain) { return evaluate_arithmetic(chain); },
          [&](const Concat& concat) { return evaluate_concat(concat); },
          [&](const Logic& logic) { return evaluate_logic(logic); },
          [&](const Comparison& chain) { return evaluate_comparison(chain); },
          [&](const Conditional& conditional) { return evaluate_conditional(conditional); },
          [&](const Postfix& postfix) { return evaluate_postfix(postfix); },
      },
      expression.what);
}

Result<Value> Interpreter::evaluate_constant(uint32_t id) {
  if (constants_[id].is(Kind::none)) {
    constants_[id] = std::visit(Overload{
                                    [](std::nullptr_t) { return Value(); },
                                    [](bool v) { return Value::boolean(v); },
                                    [](int64_t v) { return Value::integer(v); },
                                    [](double v) { return Value::real(v); },
                                    [](const std::string& v) { return Value::string(v); },
                                },
                                program_.constants[id]);
  }
  return constants_[id];
}

Result<std::vector<Value>> Interpreter::evaluate_all(const std::vector<ExprPtr>& expressions) {
  TRY(charge_operands(expressions.size()));
  std::vector<Value> values;
  values.reserve(expressions.size());
  for (const ExprPtr& expression : expressions) values.push_back(TRY(evaluate(*expression)));
  return values;
}

Result<Value> Interpreter::evaluate_dict(const DictDisplay& display) {
  TRY(charge_operands(display.items.size()));
  Dict dict;
  for (const auto& [key_expression, value_expression] : display.items) {
    Value key = TRY(evaluate(*key_expression));
    Value value = TRY(evaluate(*value_expression));
    TRY(check_hashable(rt_, key));
    dict.set(std::move(key), std::move(value));
  }
  return make_dict(std::move(dict));
}

Result<Value> Interpreter::evaluate_unary(const Unary& unary) {
  const Value operand = TRY(evaluate(*unary.operand));
  switch (unary.op) {
    case UnaryOp::negate:
      return negate(operand);
    case UnaryOp::plus:
      return unary_plus(operand);
    case UnaryOp::logical_not:
      return Value::boolean(!is_true(operand));
  }
  RF_UNREACHABLE("a UnaryOp outside its enum");
}

Result<Value> Interpreter::evaluate_arithmetic(const Arithmetic& chain) {
  TRY(charge_operands(chain.rest.size()));
  Value left = TRY(evaluate(*chain.first));
  for (const Arithmetic::Step& step : chain.rest) {
    const Value right = TRY(evaluate(*step.operand));
    auto result = arithmetic(rt_, step.op, left, right);
    if (!result.ok() && !failed_at_) failed_at_ = step.at;
    left = TRY(std::move(result));
  }
  return left;
}

Result<Value> Interpreter::evaluate_concat(const Concat& concat) {
  TRY(charge_operands(concat.parts.size()));
  Builder out(rt_);
  for (const ExprPtr& part : concat.parts) TRY(print_str(out, TRY(evaluate(*part))));
  return Value::string(out.take());
}

Result<Value> Interpreter::evaluate_logic(const Logic& logic) {
  TRY(charge_operands(logic.operands.size()));
  Value value;
  for (const ExprPtr& operand : logic.operands) {
    value = TRY(evaluate(*operand));
    if (is_true(value) == logic.is_or) break;
  }
  return value;
}

Result<Value> Interpreter::evaluate_comparison(const Comparison& chain) {
  TRY(charge_operands(chain.rest.size()));
  Value left = TRY(evaluate(*chain.first));
  for (const Comparison::Step& step : chain.rest) {
    Value right = TRY(evaluate(*step.operand));
    auto holds = compare(rt_, step.op, left, right);
    if (!holds.ok() && !failed_at_) failed_at_ = step.at;
    if (!TRY(std::move(holds))) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Result<Value> Interpreter::evaluate_conditional(const Conditional& conditional) {
  if (is_true(TRY(evaluate(*conditional.test)))) return evaluate(*conditional.then);
  if (conditional.otherwise) return evaluate(*conditional.otherwise);
  return make_undefined("the condition of this expression was false and it has no else");
}

Result<Value> Interpreter::evaluate_postfix(const Postfix& postfix, const Value* caller) {
  Value value = TRY(evaluate(*postfix.base));
  for (size_t i = 0; i < postfix.ops.size(); i++) {
    const PostfixOp& op = postfix.ops[i];
    const bool is_last = i + 1 == postfix.ops.size();
    // A method called at once needs no object of its own.
    const auto* attribute = std::get_if<Attribute>(&op.what);
    const auto* call_op = is_last ? nullptr : std::get_if<Call>(&postfix.ops[i + 1].what);
    const Callable method = attribute != nullptr && call_op != nullptr ? find_method(value, attribute->name) : nullptr;
    TRY(rt_.charge(1));
    auto result = [&]() -> Result<Value> {
      if (method == nullptr) return apply(op, value, is_last ? caller : nullptr);
      i++;
      Args args = TRY(evaluate_args(call_op->args));
      if (caller != nullptr && i + 1 == postfix.ops.size()) args.named.emplace_back("caller", *caller);
      return method(rt_, value, args);
    }();
    if (!result.ok() && !failed_at_) failed_at_ = op.at;
    value = TRY(std::move(result));
  }
  return value;
}

Result<Value> Interpreter::apply(const PostfixOp& op, const Value& value, const Value* caller) {
  return std::visit(Overload{
                        [&](const Attribute& attribute) { return get_attribute(rt_, value, attribute.name); },
                        [&](const Subscript& subscript) -> Result<Value> {
                          return get_item(rt_, value, TRY(evaluate(*subscript.key)));
                        },
                        [&](const Slice& bounds) { return evaluate_slice(bounds, value); },
                        [&](const Call& call_op) -> Result<Value> {
                          Args args = TRY(evaluate_args(call_op.args));
                          if (caller != nullptr) args.named.emplace_back("caller", *caller);
                          return call(value, std::move(args));
                        },
                        [&](const FilterUse& filter) -> Result<Value> {
                          if (filter.body == nullptr) return fault("no filter named '{}'", filter.name);
                          return filter.body(rt_, value, TRY(evaluate_args(filter.args)));
                        },
                        [&](const TestUse& test) -> Result<Value> {
                          if (test.body == nullptr) return fault("no test named '{}'", test.name);
                          const Value passed = TRY(test.body(rt_, value, TRY(evaluate_args(test.args))));
                          return test.negated ? Value::boolean(!is_true(passed)) : passed;
                        },
                    },
                    op.what);
}

Result<Value> Interpreter::evaluate_or_none(const ExprPtr& expression) {
  return expression ? evaluate(*expression) : Value();
}

Result<Value> Interpreter::evaluate_slice(const Slice& bounds, const Value& value) {
  const Value start = TRY(evaluate_or_none(bounds.start));
  const Value stop = TRY(evaluate_or_none(bounds.stop));
  const Value step = TRY(evaluate_or_none(bounds.step));
  return slice(rt_, value, start, stop, step);
}

}  // namespace rocmforge::jinja
