// The interpreter's calls: functions, macros, and loops that call themselves.

#include <algorithm>

#include "chat/jinja/interpreter.h"

namespace rocmforge::jinja {

Result<Args> Interpreter::evaluate_args(const CallArgs& args) {
  Args values;
  values.positional = TRY(evaluate_all(args.positional));
  for (const auto& [name, expression] : args.named) values.named.emplace_back(name, TRY(evaluate(*expression)));
  if (args.more_positional) {
    const Value more = TRY(evaluate(*args.more_positional));
    if (!is_iterable(more)) return fault("argument after * must be an iterable, not {}", type_name(more));
    for (Value& value : TRY(to_vector(rt_, more))) values.positional.push_back(std::move(value));
  }
  if (args.more_named) {
    const Value more = TRY(evaluate(*args.more_named));
    if (!more.is(Kind::dict)) return fault("argument after ** must be a mapping, not {}", type_name(more));
    for (const Dict::Entry& entry : dict_of(more).entries()) {
      TRY(rt_.charge(1));
      if (!entry.key.is(Kind::string)) return fault("keywords must be strings");
      const bool repeated = std::ranges::any_of(args.named, [&](const auto& n) { return n.first == entry.key.text(); });
      if (repeated) return fault("got multiple values for keyword argument '{}'", entry.key.text());
      values.named.emplace_back(entry.key.text(), entry.value);
    }
  }
  return values;
}

Result<Value> Interpreter::call(const Value& callee, Args args) {
  switch (callee.kind()) {
    case Kind::function: {
      const auto* function = callee.as<FunctionObject>();
      return function->body(rt_, function->self, args);
    }
    case Kind::macro:
      return call_macro(*callee.as<MacroObject>(), std::move(args));
    case Kind::loop:
      return call_loop(*callee.as<LoopObject>(), args);
    case Kind::joiner: {
      TRY(expect_no_args(args, "joiner"));
      auto* joiner = callee.as<JoinerObject>();
      return std::exchange(joiner->used, true) ? joiner->separator : Value::string("");
    }
    case Kind::undefined:
      return undefined_fault(callee);
    case Kind::none:
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::name_space:
    case Kind::range:
    case Kind::dict_view:
    case Kind::iterator:
    case Kind::cycler:
      return fault("'{}' object is not callable", type_name(callee));
  }
  RF_UNREACHABLE("a Kind outside its enum");
}

Result<Value> Interpreter::call_macro(const MacroObject& macro, Args args) {
  if (n_calls_ >= rt_.limits().max_depth) {
    return Error{ErrorCode::template_limit, fmt::format("calls nested deeper than {}", rt_.limits().max_depth)};
  }
  n_calls_++;
  Value text;
  {
    const Inside inside(*this, macro.scope);
    Capture capture(*this);
    TRY(bind_parameters(*macro.macro, std::move(args)));
    TRY(execute(macro.macro->body));
    text = Value::string(capture.take());
  }
  n_calls_--;
  return text;
}

// Into the current scope: the parameters, and caller, kwargs and varargs where the body mentions them.
Result<void> Interpreter::bind_parameters(const Macro& macro, Args args) {
  const size_t n = macro.parameters.size();
  const auto take_named = [&](std::string_view name) -> std::optional<Value> {
    const auto found = std::ranges::find_if(args.named, [&](const auto& a) { return a.first == name; });
    if (found == args.named.end()) return std::nullopt;
    Value value = std::move(found->second);
    args.named.erase(found);
    return value;
  };
  std::vector<size_t> missing;
  for (size_t i = 0; i < n; i++) {
    const std::string& name = program_.names[macro.parameters[i]];
    std::optional<Value> value;
    if (i < args.positional.size()) {
      value = std::move(args.positional[i]);
    } else {
      value = take_named(name);
    }
    if (!value) missing.push_back(i);
    store(macro.parameters[i],
          value ? std::move(*value) : make_undefined(fmt::format("parameter '{}' was not provided", name)));
  }
  const bool caller_is_parameter = std::ranges::find(macro.parameters, kCaller) != macro.parameters.end();
  if (macro.uses_caller && !caller_is_parameter) {
    auto caller = take_named("caller");
    const bool given = caller && !caller->is(Kind::none);
    store(kCaller, given ? std::move(*caller) : make_undefined("No caller defined"));
  }
  if (macro.uses_kwargs) {
    Dict rest;
    for (auto& [name, value] : args.named) rest.set(name, std::move(value));
    store(kKwargs, make_dict(std::move(rest)));
  } else if (!args.named.empty()) {
    return fault("macro '{}' takes no keyword argument '{}'", macro.name, args.named[0].first);
  }
  if (macro.uses_varargs) {
    std::vector<Value> rest;
    for (size_t i = n; i < args.positional.size(); i++) rest.push_back(std::move(args.positional[i]));
    store(kVarargs, Value::tuple(std::move(rest)));
  } else if (args.positional.size() > n) {
    return fault("macro '{}' takes not more than {} argument(s)", macro.name, n);
  }
  const size_t first_default = n - macro.defaults.size();
  for (const size_t i : missing) {
    if (i >= first_default) store(macro.parameters[i], TRY(evaluate(*macro.defaults[i - first_default])));
  }
  return {};
}

Result<Value> Interpreter::call_loop(const LoopObject& loop, const Args& args) {
  const auto [iterable] = TRY(bind<1>(args, "loop", {"iterable"}, 1));
  if (loop.recursive == nullptr) {
    return fault("The loop must have the 'recursive' marker to be called recursively.");
  }
  if (n_calls_ >= rt_.limits().max_depth) {
    return Error{ErrorCode::template_limit, fmt::format("calls nested deeper than {}", rt_.limits().max_depth)};
  }
  n_calls_++;
  Capture capture(*this);
  TRY(run_loop(*loop.recursive, *iterable, loop.scope, loop.depth0 + 1));
  n_calls_--;
  return Value::string(capture.take());
}

}  // namespace rocmforge::jinja
