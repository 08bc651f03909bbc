#include "chat/jinja/interpreter.h"

#include <algorithm>

#include "chat/jinja/loop.h"
#include "chat/jinja/overload.h"
#include "chat/jinja/print.h"

namespace rocmforge::jinja {
namespace {

// A template that passes the limits on nesting and calls can still multiply them: this bounds the machine's stack.
constexpr size_t kMaxLevels = 1500;

}  // namespace

Interpreter::Interpreter(const Program& program, const RenderOptions& options)
    : program_(program), rt_(options), context_(program.names.size()), constants_(program.constants.size()) {
  scope_ = new_scope(nullptr);
}

Result<std::string> Interpreter::run(const JsonValue& context) {
  for (size_t i = 0; i < program_.names.size(); i++) {
    const std::string& name = program_.names[i];
    if (const JsonValue* member = context.find(name)) {
      context_[i] = Value::from_json(*member);
    } else if (const Callable global = find_global(name)) {
      context_[i] = make<FunctionObject>(name, global, Value());
    }
  }
  TRY(execute(program_.body));
  return std::move(output_);
}

Result<void> Interpreter::check_level() const {
  if (depth_ <= kMaxLevels) return {};
  return Error{ErrorCode::template_limit, "calls and nested expressions go too deep together"};
}

Value Interpreter::lookup(NameId name) const {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    for (const auto& [id, value] : scope->variables) {
      if (id == name) return value;
    }
  }
  if (context_[name]) return *context_[name];
  return make<UndefinedObject>(UndefinedObject::Why::no_variable, "", program_.names[name]);
}

void Interpreter::store(NameId name, Value value) {
  for (auto& [id, old] : scope_->variables) {
    if (id == name) {
      old = std::move(value);
      return;
    }
  }
  scope_->variables.emplace_back(name, std::move(value));
}

Scope* Interpreter::new_scope(Scope* parent) {
  if (free_scopes_.empty()) {
    scopes_.push_back(std::make_unique<Scope>());
    free_scopes_.push_back(scopes_.back().get());
  }
  Scope* scope = free_scopes_.back();
  free_scopes_.pop_back();
  scope->parent = parent;
  return scope;
}

void Interpreter::release(Scope* scope) {
  if (scope->is_captured) return;
  scope->variables.clear();
  free_scopes_.push_back(scope);
}

void Interpreter::capture_scopes() {
  for (Scope* scope = scope_; scope != nullptr && !scope->is_captured; scope = scope->parent) scope->is_captured = true;
}

Result<void> Interpreter::write(std::string_view text) {
  TRY(rt_.check_text(out_->size() + text.size()));
  TRY(rt_.charge_text(text.size()));
  *out_ += text;
  return {};
}

Result<void> Interpreter::write_value(const Value& value) {
  if (value.is(Kind::string)) return write(value.text());
  return write(TRY(to_str(rt_, value)));
}

Result<void> Interpreter::write_text(const Value& value) {
  if (value.is(Kind::string)) return write(value.text());
  return fault("expected str instance, {} found", type_name(value));
}

Result<Interpreter::Flow> Interpreter::execute(const Block& block) {
  const Level level(*this);
  TRY(check_level());
  for (const Stmt& statement : block) {
    auto flow = execute(statement);
    if (!flow.ok() && !failed_at_) failed_at_ = statement.at;
    if (!flow.ok() || *flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Result<Interpreter::Flow> Interpreter::execute(const Stmt& statement) {
  TRY(rt_.charge(1));
  const auto done = [](Result<void> result) -> Result<Flow> {
    TRY(std::move(result));
    return Flow::normal;
  };
  return std::visit(
      Overload{
          [&](const Text& text) { return done(write(text.text)); },
          [&](const Print& print) -> Result<Flow> { return done(write_value(TRY(evaluate(*print.value)))); },
          [&](const If& s) { return execute_if(s); },
          [&](const For& s) -> Result<Flow> { return run_loop(s, TRY(evaluate(*s.iterable)), scope_, 0); },
          [&](const Set& s) { return done(execute_set(s)); },
          [&](const SetBlock& s) { return execute_set_block(s); },
          [&](const Macro& macro) -> Result<Flow> {
            capture_scopes();
            store(macro.id, make<MacroObject>(&macro, scope_));
            return Flow::normal;
          },
          [&](const CallBlock& s) { return done(execute_call_block(s)); },
          [&](const FilterBlock& s) { return execute_filter_block(s); },
          [&](const With& s) { return execute_with(s); },
          [&](const Generation& s) { return execute_inside(s.body); },
          [](const Break&) -> Result<Flow> { return Flow::break_loop; },
          [](const Continue&) -> Result<Flow> { return Flow::continue_loop; },
      },
      statement.what);
}

Result<Interpreter::Flow> Interpreter::execute_inside(const Block& block) {
  const Inside inside(*this, scope_);
  return execute(block);
}

Result<Interpreter::Flow> Interpreter::execute_if(const If& statement) {
  for (const If::Branch& branch : statement.branches) {
    if (is_true(TRY(evaluate(*branch.test)))) return execute(branch.body);
  }
  return execute(statement.otherwise);
}

Result<void> Interpreter::execute_set(const Set& statement) {
  TRY(check_namespaces(statement.target));
  return assign(statement.target, TRY(evaluate(*statement.value)));
}

Result<Interpreter::Flow> Interpreter::execute_set_block(const SetBlock& statement) {
  Value value;
  const Flow flow = TRY(capture_block(value, statement.body, statement.filters));
  if (flow != Flow::normal) return flow;
  TRY(check_namespaces(statement.target));
  TRY(assign(statement.target, std::move(value)));
  return flow;
}

Result<Interpreter::Flow> Interpreter::execute_filter_block(const FilterBlock& statement) {
  Value value;
  const Flow flow = TRY(capture_block(value, statement.body, statement.filters));
  if (flow == Flow::normal) TRY(write_text(value));
  return flow;
}

Result<Interpreter::Flow> Interpreter::capture_block(Value& out, const Block& block,
                                                     const std::vector<PostfixOp>& filters) {
  const Inside inside(*this, scope_);
  Capture capture(*this);
  const Flow flow = TRY(execute(block));
  if (flow != Flow::normal) return flow;
  out = Value::string(capture.take());
  for (const PostfixOp& filter : filters) out = TRY(apply(filter, out));
  return flow;
}

Result<Interpreter::Flow> Interpreter::execute_with(const With& statement) {
  std::vector<Value> values;  // all evaluated outside before any is assigned
  values.reserve(statement.assignments.size());
  for (const auto& [target, value] : statement.assignments) values.push_back(TRY(evaluate(*value)));
  const Inside inside(*this, scope_);
  for (size_t i = 0; i < values.size(); i++) TRY(assign(statement.assignments[i].first, std::move(values[i])));
  return execute(statement.body);
}

Result<void> Interpreter::execute_call_block(const CallBlock& statement) {
  capture_scopes();
  const Value caller = make<MacroObject>(&statement.caller, scope_);
  const auto& call = std::get<Postfix>(statement.call->what);
  return write_text(TRY(evaluate_postfix(call, &caller)));
}

Result<Interpreter::Flow> Interpreter::run_loop(const For& loop, Value iterable, Scope* scope, int64_t depth0) {
  bool completed = false;
  if (loop.uses_loop) {
    if (loop.recursive) capture_scopes();
    const Value variable = make<LoopObject>();
    auto* state = variable.as<LoopObject>();
    // A loop that is over lets go of everything: it may have been kept, and may hold itself.
    struct Ending {
      LoopObject& state;
      ~Ending() {
        state.pull = nullptr;
        state.last_changed.reset();
      }
    } const ending{*state};
    state->depth0 = depth0;
    state->recursive = loop.recursive ? &loop : nullptr;
    state->scope = scope;
    if (!loop.condition) state->known_length = find_length(iterable);
    completed = TRY(run_rounds(loop, state, std::move(iterable), scope));
  } else {
    completed = TRY(run_rounds(loop, nullptr, std::move(iterable), scope));
  }
  if (completed || loop.otherwise.empty()) return Flow::normal;
  const Inside inside(*this, scope);
  return execute(loop.otherwise);
}

// Whether some round got to its end: as in Jinja, the else block runs when none did.
Result<bool> Interpreter::run_rounds(const For& loop, LoopObject* state, Value iterable, Scope* scope) {
  Walk walk = TRY(Walk::over(std::move(iterable)));
  if (state != nullptr) {
    state->pull = [this, &loop, &walk, scope] { return next_item(loop, walk, scope); };
  }
  bool completed = false;
  for (;;) {
    auto item = state != nullptr ? TRY(advance(*state)) : TRY(next_item(loop, walk, scope));
    if (!item) return completed;
    TRY(rt_.charge(1));
    const Inside round(*this, scope);
    if (state != nullptr) store(kLoop, Value::of(state));
    TRY(assign(loop.target, std::move(*item)));
    const Flow flow = TRY(execute(loop.body));
    if (flow == Flow::break_loop) return completed;
    completed = completed || flow == Flow::normal;
  }
}

Result<std::optional<Value>> Interpreter::next_item(const For& loop, Walk& walk, Scope* scope) {
  for (;;) {
    auto item = TRY(walk.next());
    if (!item || !loop.condition) return item;
    TRY(rt_.charge(1));
    const Inside testing(*this, scope);
    TRY(assign(loop.target, *item));
    if (is_true(TRY(evaluate(*loop.condition)))) return item;
  }
}

Result<void> Interpreter::assign(const Target& target, Value value) {
  return std::visit(Overload{
                        [&](const Name& name) -> Result<void> {
                          store(name.id, std::move(value));
                          return {};
                        },
                        [&](const NamespaceTarget& attribute) -> Result<void> {
                          const Value space = lookup(attribute.name);
                          space.as<DictObject>()->dict.set(attribute.attribute, std::move(value));
                          return {};
                        },
                        [&](const std::vector<Target>& targets) { return unpack(targets, value); },
                    },
                    target.what);
}

Result<void> Interpreter::check_namespaces(const Target& target) {
  if (const auto* attribute = std::get_if<NamespaceTarget>(&target.what)) {
    const Value space = lookup(attribute->name);
    if (!space.is(Kind::name_space)) return fault("cannot assign attribute on non-namespace object");
  }
  if (const auto* targets = std::get_if<std::vector<Target>>(&target.what)) {
    for (const Target& inner : *targets) TRY(check_namespaces(inner));
  }
  return {};
}

Result<void> Interpreter::unpack(const std::vector<Target>& targets, const Value& value) {
  if (!is_iterable(value)) return fault("cannot unpack non-iterable {} object", type_name(value));
  std::vector<Value> items = TRY(to_vector(rt_, value));
  if (items.size() > targets.size()) return fault("too many values to unpack (expected {})", targets.size());
  if (items.size() < targets.size()) {
    return fault("not enough values to unpack (expected {}, got {})", targets.size(), items.size());
  }
  for (size_t i = 0; i < items.size(); i++) TRY(assign(targets[i], std::move(items[i])));
  return {};
}

}  // namespace rocmforge::jinja
