#pragma once
// Tokens to a Program, by recursive descent. Every level of nesting in the text is counted against the limit.

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/seeded_hash.h"
#include "chat/jinja/ast.h"
#include "chat/jinja/lexer.h"
#include "chat/jinja/template.h"

namespace rocmforge::jinja {

class Parser {
 public:
  // An error's position is put into `failed_at`.
  Parser(std::vector<Token> tokens, const Limits& limits, Offset& failed_at)
      : tokens_(std::move(tokens)), limits_(limits), failed_at_(failed_at) {}

  Result<Program> run();

 private:
  // One level of nesting, while it lives.
  class Nest {
   public:
    explicit Nest(Parser& parser) : parser_(parser) { parser_.depth_++; }
    ~Nest() { parser_.depth_--; }
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;

   private:
    Parser& parser_;
  };
  Result<void> check_depth();

  // Which of kOwnNames a macro's body mentions, by id. A name that was `assigned` before its first use is an ordinary
  // variable.
  struct Mentions {
    bool seen[std::size(kOwnNames)] = {};
    bool assigned[std::size(kOwnNames)] = {};
  };
  // The context of the place being parsed, as far as statements depend on it.
  struct Surroundings {
    size_t n_breakable = 0;  // loops that break and continue can reach
    bool is_soft = false;    // inside an if: unknown filters fail only when reached
  };

  // parser.cpp: statements
  Result<Block> parse_until(std::initializer_list<std::string_view> end_names);
  Result<Block> parse_body(std::initializer_list<std::string_view> end_names);
  Result<void> parse_statement(Block& out);
  Result<void> parse_print(Block& out);
  Result<Stmt> parse_if(Offset at);
  Result<Stmt> parse_for(Offset at);
  Result<Stmt> parse_set(Offset at);
  Result<Stmt> parse_with(Offset at);
  Result<Stmt> parse_macro(Offset at);
  Result<Stmt> parse_call_block(Offset at);
  Result<Stmt> parse_filter_block(Offset at);
  Result<Stmt> parse_generation(Offset at);
  Result<Stmt> parse_loop_control(Offset at, bool is_break);
  Result<void> parse_signature(Macro& macro);
  Result<void> parse_macro_body(Macro& macro, std::string_view end_name);
  Result<Block> parse_inner(std::initializer_list<std::string_view> end_names);
  Result<Target> parse_target(bool with_namespace);
  Result<Target> parse_target_item(bool with_namespace);

  // expressions.cpp
  Result<ExprPtr> parse_tuple(bool with_conditional, bool in_parentheses = false);
  Result<ExprPtr> parse_expression(bool with_conditional = true);
  Result<ExprPtr> parse_conditional();
  Result<ExprPtr> parse_logic(bool is_or);
  Result<ExprPtr> parse_not();
  Result<ExprPtr> parse_comparison();
  Result<ExprPtr> parse_sum();
  Result<ExprPtr> parse_concat();
  Result<ExprPtr> parse_product();
  Result<ExprPtr> parse_power();
  Result<ExprPtr> parse_unary(bool with_filters = true);
  Result<ExprPtr> parse_primary();
  Result<ExprPtr> parse_list();
  Result<ExprPtr> parse_dict();
  Result<ExprPtr> parse_string();
  Result<ExprPtr> parse_number();
  Result<ExprPtr> parse_postfix(ExprPtr base, bool with_filters);
  Result<PostfixOp> parse_attribute();
  Result<PostfixOp> parse_subscript();
  Result<PostfixOp> parse_call();
  Result<PostfixOp> parse_filter();  // after the bar
  Result<PostfixOp> parse_test();
  Result<std::string> parse_dotted_name();
  Result<CallArgs> parse_call_args();
  ExprPtr constant(Offset at, Program::ConstantValue value);

  // The token stream
  const Token& peek(size_t n = 0) const { return tokens_[std::min(at_ + n, tokens_.size() - 1)]; }
  bool at(TokenType type) const { return peek().type == type; }
  bool at_name(std::string_view name, size_t n = 0) const {
    return peek(n).type == TokenType::name && peek(n).text == name;
  }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool accept(TokenType type) { return at(type) && (take(), true); }
  bool accept_name(std::string_view name) { return at_name(name) && (take(), true); }
  Result<Token> expect(TokenType type, std::string_view what);
  Result<void> expect_name(std::string_view name);
  Error fail(Offset at, std::string message);
  Error unexpected(std::string_view wanted);

  // A variable's name is read, or written.
  NameId note_load(std::string_view name);
  Result<NameId> note_store(const Token& name);
  NameId intern(std::string_view name);

  std::vector<Token> tokens_;
  const Limits& limits_;
  Offset& failed_at_;
  Program program_;
  std::unordered_map<std::string_view, NameId, SeededTextHash> ids_;  // views into the tokens' text
  size_t at_ = 0;
  size_t depth_ = 0;
  size_t n_for_ = 0;                  // enclosing for statements
  std::vector<bool*> loop_mentions_;  // of the enclosing bodies, innermost last
  std::vector<Mentions> macros_;      // of the enclosing macros
  Surroundings around_;
  std::vector<std::pair<Offset, std::string>> unknown_;  // filters and tests that fail the whole template
};

}  // namespace rocmforge::jinja
