#pragma once
// The tree a template is parsed into. Chains of equal precedence (a + b + c, a.b[c]|d) are lists, not nested pairs: the
// tree is only as deep as the text nests, which the parser bounds.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "chat/jinja/value.h"

namespace rocmforge::jinja {

class Runtime;
struct Args;

// A filter, a test, a method or a global function. `self` is the value before the bar, the dot or `is`.
using Callable = Result<Value> (*)(Runtime& rt, const Value& self, const Args& args);

using Offset = uint32_t;  // of a byte in the template's text
using NameId = uint32_t;  // of a variable's name in the template's table of names

struct Expr;
using ExprPtr = std::unique_ptr<const Expr>;

struct CallArgs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr more_positional;  // *x
  ExprPtr more_named;       // **x
};

struct Constant {
  uint32_t id;  // in the template's table of constants
};
struct Name {
  NameId id;
};
struct ListDisplay {
  std::vector<ExprPtr> items;
};
struct TupleDisplay {
  std::vector<ExprPtr> items;
};
struct DictDisplay {
  std::vector<std::pair<ExprPtr, ExprPtr>> items;
};
enum class UnaryOp { negate, plus, logical_not };
struct Unary {
  UnaryOp op;
  ExprPtr operand;
};
enum class BinaryOp { add, subtract, multiply, divide, floor_divide, modulo, power };
struct Arithmetic {
  struct Step {
    BinaryOp op;
    Offset at;
    ExprPtr operand;
  };
  ExprPtr first;
  std::vector<Step> rest;
};
struct Concat {
  std::vector<ExprPtr> parts;
};
struct Logic {
  bool is_or;
  std::vector<ExprPtr> operands;
};
enum class CompareOp { equal, not_equal, less, less_equal, greater, greater_equal, in, not_in };
struct Comparison {
  struct Step {
    CompareOp op;
    Offset at;
    ExprPtr operand;
  };
  ExprPtr first;
  std::vector<Step> rest;
};
struct Conditional {
  ExprPtr test, then, otherwise;  // otherwise: may be null
};

struct Attribute {
  std::string name;
};
struct Subscript {
  ExprPtr key;
};
struct Slice {
  ExprPtr start, stop, step;  // each may be null
};
struct Call {
  CallArgs args;
};
struct FilterUse {
  std::string name;
  Callable body;  // null for an unknown name, which is an error only when it is reached
  CallArgs args;
};
struct TestUse {
  std::string name;
  Callable body;
  CallArgs args;
  bool negated;
};
struct PostfixOp {
  Offset at;
  std::variant<Attribute, Subscript, Slice, Call, FilterUse, TestUse> what;
};
struct Postfix {
  ExprPtr base;
  std::vector<PostfixOp> ops;
};

struct Expr {
  Offset at;
  std::variant<Constant, Name, ListDisplay, TupleDisplay, DictDisplay, Unary, Arithmetic, Concat, Logic, Comparison,
               Conditional, Postfix>
      what;
};

struct Stmt;
using Block = std::vector<Stmt>;

struct NamespaceTarget {
  NameId name;
  std::string attribute;
};
struct Target {
  Offset at;
  std::variant<Name, NamespaceTarget, std::vector<Target>> what;
};

struct Text {
  std::string text;
};
struct Print {
  ExprPtr value;
};
struct If {
  struct Branch {
    ExprPtr test;
    Block body;
  };
  std::vector<Branch> branches;
  Block otherwise;
};
struct For {
  Target target;
  ExprPtr iterable;
  ExprPtr condition;  // may be null
  bool recursive = false;
  bool uses_loop = false;
  Block body;
  Block otherwise;
};
struct Set {
  Target target;
  ExprPtr value;
};
struct SetBlock {
  Target target;
  std::vector<PostfixOp> filters;
  Block body;
};
struct Macro {
  std::string name;  // empty for the body of a call block
  NameId id = 0;
  std::vector<NameId> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  Block body;
  // Whether the body mentions these names, which Jinja then defines.
  bool uses_caller = false;
  bool uses_kwargs = false;
  bool uses_varargs = false;
};
struct CallBlock {
  Macro caller;
  ExprPtr call;  // a Postfix that ends in a Call
};
struct FilterBlock {
  std::vector<PostfixOp> filters;
  Block body;
};
struct With {
  std::vector<std::pair<Target, ExprPtr>> assignments;
  Block body;
};
struct Generation {
  Block body;
};
struct Break {};
struct Continue {};

struct Stmt {
  Offset at;
  std::variant<Text, Print, If, For, Set, SetBlock, Macro, CallBlock, FilterBlock, With, Generation, Break, Continue>
      what;
};

// Names that statements define implicitly have fixed ids.
inline constexpr std::string_view kOwnNames[] = {"loop", "caller", "kwargs", "varargs"};
inline constexpr NameId kLoop = 0;
inline constexpr NameId kCaller = 1;
inline constexpr NameId kKwargs = 2;
inline constexpr NameId kVarargs = 3;

// A parsed template: the tree and the tables its ids point into.
struct Program {
  using ConstantValue = std::variant<std::nullptr_t, bool, int64_t, double, std::string>;
  Block body;
  std::vector<std::string> names;
  std::vector<ConstantValue> constants;
};

}  // namespace rocmforge::jinja
