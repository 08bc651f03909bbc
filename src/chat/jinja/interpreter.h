#pragma once
// Walks a Program and writes its output. One Interpreter renders once.
//
// Scopes follow Jinja: each iteration of a loop, macros, and set, filter, call and with blocks have one; `if` has none.
// A name is looked up from the innermost scope outwards, then in the context, then among the global functions.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "chat/jinja/ast.h"
#include "chat/jinja/compare.h"
#include "chat/jinja/objects.h"
#include "chat/jinja/runtime.h"

namespace rocmforge::jinja {

struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<NameId, Value>> variables;
  bool is_captured = false;  // a macro or loop may use it again: lives as long as the interpreter
};

// A global function, or null.
Callable find_global(std::string_view name);

class Interpreter {
 public:
  Interpreter(const Program& program, const RenderOptions& options);

  Result<std::string> run(const JsonValue& context);
  // The place of the error.
  std::optional<Offset> failed_at() const { return failed_at_; }

 private:
  enum class Flow { normal, break_loop, continue_loop };

  // Makes a scope inside `parent` the current one while this object lives.
  class Inside {
   public:
    Inside(Interpreter& in, Scope* parent) : in_(in), outer_(in.scope_) { in_.scope_ = in_.new_scope(parent); }
    ~Inside() {
      in_.release(in_.scope_);
      in_.scope_ = outer_;
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Interpreter& in_;
    Scope* outer_;
  };
  // Redirects output to its own text while this object lives.
  class Capture {
   public:
    explicit Capture(Interpreter& in) : in_(in), outer_(std::exchange(in.out_, &text_)) {}
    ~Capture() { in_.out_ = outer_; }
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;
    std::string take() { return std::move(text_); }

   private:
    Interpreter& in_;
    std::string text_;
    std::string* outer_;
  };
  // One level of recursion of the interpreter itself.
  class Level {
   public:
    explicit Level(Interpreter& in) : in_(in) { in_.depth_++; }
    ~Level() { in_.depth_--; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Interpreter& in_;
  };
  Result<void> check_level() const;

  // interpreter.cpp: statements
  Result<Flow> execute(const Block& block);
  Result<Flow> execute(const Stmt& statement);
  Result<Flow> execute_if(const If& statement);
  Result<Flow> execute_set_block(const SetBlock& statement);
  Result<Flow> execute_filter_block(const FilterBlock& statement);
  // The block's output, filtered; none if break or continue leaves the block.
  Result<Flow> capture_block(Value& out, const Block& block, const std::vector<PostfixOp>& filters);
  Result<Flow> execute_with(const With& statement);
  Result<Flow> execute_inside(const Block& block);
  Result<void> execute_set(const Set& statement);
  Result<void> execute_call_block(const CallBlock& statement);
  Result<Flow> run_loop(const For& loop, Value iterable, Scope* scope, int64_t depth0);
  Result<bool> run_rounds(const For& loop, LoopObject* state, Value iterable, Scope* scope);
  Result<std::optional<Value>> next_item(const For& loop, Walk& walk, Scope* scope);
  Result<void> assign(const Target& target, Value value);
  Result<void> check_namespaces(const Target& target);
  Result<void> unpack(const std::vector<Target>& targets, const Value& value);
  Result<void> write(std::string_view text);
  Result<void> write_value(const Value& value);
  Result<void> write_text(const Value& value);  // fails unless the value is a string

  // evaluator.cpp: expressions
  Result<void> charge_operands(size_t n) { return rt_.charge(n / 4); }
  Result<Value> evaluate(const Expr& expression);
  Result<Value> evaluate_node(const Expr& expression);
  Result<Value> evaluate_constant(uint32_t id);
  Result<Value> evaluate_dict(const DictDisplay& display);
  Result<Value> evaluate_unary(const Unary& unary);
  Result<Value> evaluate_arithmetic(const Arithmetic& chain);
  Result<Value> evaluate_concat(const Concat& concat);
  Result<Value> evaluate_logic(const Logic& logic);
  Result<Value> evaluate_comparison(const Comparison& chain);
  Result<Value> evaluate_conditional(const Conditional& conditional);
  // `caller`, if given, is passed to the last operation, which is a call.
  Result<Value> evaluate_postfix(const Postfix& postfix, const Value* caller = nullptr);
  Result<Value> apply(const PostfixOp& op, const Value& value, const Value* caller = nullptr);
  Result<Value> evaluate_slice(const Slice& bounds, const Value& value);
  Result<std::vector<Value>> evaluate_all(const std::vector<ExprPtr>& expressions);
  Result<Value> evaluate_or_none(const ExprPtr& expression);

  // calls.cpp
  Result<Args> evaluate_args(const CallArgs& args);
  Result<Value> call(const Value& callee, Args args);
  Result<Value> call_macro(const MacroObject& macro, Args args);
  Result<void> bind_parameters(const Macro& macro, Args args);
  Result<Value> call_loop(const LoopObject& loop, const Args& args);

  Value lookup(NameId name) const;
  void store(NameId name, Value value);
  Scope* new_scope(Scope* parent);
  void release(Scope* scope);
  void capture_scopes();  // the current one and those around it

  const Program& program_;
  Runtime rt_;
  std::vector<std::optional<Value>> context_;  // by NameId: from the caller, or a global function
  std::vector<Value> constants_;               // by id, made on first use
  std::vector<std::unique_ptr<Scope>> scopes_;
  std::vector<Scope*> free_scopes_;
  Scope* scope_ = nullptr;
  std::string output_;
  std::string* out_ = &output_;
  size_t depth_ = 0;
  size_t n_calls_ = 0;  // nested calls of macros and loops
  std::optional<Offset> failed_at_;
};

}  // namespace rocmforge::jinja
