#include "chat/jinja/parser.h"

#include <fmt/core.h>

#include <algorithm>

namespace rocmforge::jinja {
namespace {

bool is_literal_name(std::string_view name) {
  return name == "true" || name == "false" || name == "none" || name == "True" || name == "False" || name == "None";
}

}  // namespace

Result<Program> Parser::run() {
  for (const std::string_view name : kOwnNames) intern(name);
  program_.body = TRY(parse_until({}));
  if (!unknown_.empty()) return fail(unknown_[0].first, unknown_[0].second);
  return std::move(program_);
}

Error Parser::fail(Offset at, std::string message) {
  failed_at_ = at;
  return Error{ErrorCode::template_syntax, std::move(message)};
}

Error Parser::unexpected(std::string_view wanted) {
  const Token& token = peek();
  std::string found = fmt::format("'{}'", token.text);
  if (token.type == TokenType::end) found = "the end of the template";
  if (token.type == TokenType::block_end || token.type == TokenType::variable_end) found = "the end of the tag";
  return fail(token.at, fmt::format("expected {}, found {}", wanted, found));
}

Result<Token> Parser::expect(TokenType type, std::string_view what) {
  if (at(type)) return take();
  return unexpected(what);
}

Result<void> Parser::expect_name(std::string_view name) {
  if (accept_name(name)) return {};
  return unexpected(fmt::format("'{}'", name));
}

Result<void> Parser::check_depth() {
  if (depth_ <= limits_.max_depth) return {};
  failed_at_ = peek().at;
  return Error{ErrorCode::template_limit, fmt::format("nested deeper than {} levels", limits_.max_depth)};
}

NameId Parser::intern(std::string_view name) {
  const auto [entry, is_new] = ids_.try_emplace(name, static_cast<NameId>(program_.names.size()));
  if (is_new) program_.names.emplace_back(name);
  return entry->second;
}

NameId Parser::note_load(std::string_view name) {
  const NameId id = intern(name);
  if (id == kLoop && !loop_mentions_.empty()) *loop_mentions_.back() = true;
  if (id < std::size(kOwnNames)) {
    for (Mentions& macro : macros_) macro.seen[id] = macro.seen[id] || !macro.assigned[id];
  }
  return id;
}

Result<NameId> Parser::note_store(const Token& name) {
  if (is_literal_name(name.text)) return fail(name.at, fmt::format("cannot assign to '{}'", name.text));
  const NameId id = intern(name.text);
  if (id == kLoop && n_for_ > 0) return fail(name.at, "cannot assign to the variable 'loop' inside a loop");
  if (id < std::size(kOwnNames)) {
    for (Mentions& macro : macros_) macro.assigned[id] = macro.assigned[id] || !macro.seen[id];
  }
  return id;
}

// Statements up to a tag with one of the names, whose name is then the next token; without names, to the end.
Result<Block> Parser::parse_until(std::initializer_list<std::string_view> end_names) {
  const Nest nest(*this);
  TRY(check_depth());
  Block body;
  for (;;) {
    const Token& token = peek();
    switch (token.type) {
      case TokenType::data:
        body.push_back({token.at, Text{std::string(take().text)}});
        continue;
      case TokenType::variable_begin: {
        take();
        body.push_back({token.at, Print{TRY(parse_tuple(true))}});
        TRY(expect(TokenType::variable_end, "'}}'"));
        continue;
      }
      case TokenType::block_begin: {
        take();
        const bool is_end = at(TokenType::name) && std::ranges::find(end_names, peek().text) != end_names.end();
        if (is_end) return body;
        TRY(parse_statement(body));
        TRY(expect(TokenType::block_end, "'%}'"));
        continue;
      }
      default:
        break;
    }
    if (end_names.size() == 0) return body;
    const auto* end = std::ranges::find_if(end_names, [](std::string_view name) { return name.starts_with("end"); });
    return unexpected(fmt::format("a tag '{}'", *end));
  }
}

// The rest of a tag, then statements up to the end tag.
Result<Block> Parser::parse_body(std::initializer_list<std::string_view> end_names) {
  accept(TokenType::colon);
  TRY(expect(TokenType::block_end, "'%}'"));
  return parse_until(end_names);
}

// The body of a statement that has its own scope; drops the end tag's name.
Result<Block> Parser::parse_inner(std::initializer_list<std::string_view> end_names) {
  const bool was_soft = std::exchange(around_.is_soft, false);
  Block body = TRY(parse_body(end_names));
  around_.is_soft = was_soft;
  take();
  return body;
}

Result<void> Parser::parse_statement(Block& out) {
  if (!at(TokenType::name)) return unexpected("the name of a tag");
  const Token tag = take();
  const auto add = [&](Result<Stmt> statement) -> Result<void> {
    out.push_back(TRY(std::move(statement)));
    return {};
  };
  if (tag.text == "if") return add(parse_if(tag.at));
  if (tag.text == "for") return add(parse_for(tag.at));
  if (tag.text == "set") return add(parse_set(tag.at));
  if (tag.text == "macro") return add(parse_macro(tag.at));
  if (tag.text == "call") return add(parse_call_block(tag.at));
  if (tag.text == "filter") return add(parse_filter_block(tag.at));
  if (tag.text == "with") return add(parse_with(tag.at));
  if (tag.text == "generation") return add(parse_generation(tag.at));
  if (tag.text == "break" || tag.text == "continue") return add(parse_loop_control(tag.at, tag.text == "break"));
  if (tag.text == "print") return parse_print(out);
  for (const std::string_view refused : {"include", "import", "from", "extends", "block", "autoescape"}) {
    if (tag.text == refused) {
      return fail(tag.at, fmt::format("the tag '{}' is not supported: a chat template stands alone", refused));
    }
  }
  return fail(tag.at, fmt::format("unknown tag '{}'", tag.text));
}

Result<void> Parser::parse_print(Block& out) {
  for (bool first = true; !at(TokenType::block_end); first = false) {
    if (!first) TRY(expect(TokenType::comma, "','"));
    const Offset start = peek().at;
    out.push_back({start, Print{TRY(parse_expression())}});
  }
  return {};
}

Result<Stmt> Parser::parse_if(Offset start) {
  const bool was_soft = std::exchange(around_.is_soft, true);
  If statement;
  for (bool more = true; more;) {
    ExprPtr test = TRY(parse_tuple(false));
    Block body = TRY(parse_body({"elif", "else", "endif"}));
    statement.branches.push_back({std::move(test), std::move(body)});
    const Token end = take();
    more = end.text == "elif";
    if (end.text == "else") {
      statement.otherwise = TRY(parse_body({"endif"}));
      take();
    }
  }
  around_.is_soft = was_soft;
  return Stmt{start, std::move(statement)};
}

Result<Stmt> Parser::parse_for(Offset start) {
  n_for_++;
  For statement;
  statement.target = TRY(parse_target(false));
  TRY(expect_name("in"));
  statement.iterable = TRY(parse_tuple(false));
  const Surroundings outside = around_;
  around_.is_soft = false;
  if (accept_name("if")) statement.condition = TRY(parse_expression());
  statement.recursive = accept_name("recursive");
  around_.n_breakable++;
  loop_mentions_.push_back(&statement.uses_loop);
  statement.body = TRY(parse_body({"endfor", "else"}));
  loop_mentions_.pop_back();
  around_.n_breakable = outside.n_breakable;
  if (take().text == "else") {
    statement.otherwise = TRY(parse_body({"endfor"}));
    take();
  }
  statement.uses_loop = statement.uses_loop || statement.recursive;
  around_ = outside;
  n_for_--;
  return Stmt{start, std::move(statement)};
}

Result<Stmt> Parser::parse_set(Offset start) {
  Target target = TRY(parse_target(true));
  if (accept(TokenType::assign)) return Stmt{start, Set{std::move(target), TRY(parse_tuple(true))}};
  SetBlock statement{std::move(target), {}, {}};
  const bool was_soft = std::exchange(around_.is_soft, false);
  while (accept(TokenType::pipe)) statement.filters.push_back(TRY(parse_filter()));
  around_.is_soft = was_soft;
  statement.body = TRY(parse_inner({"endset"}));
  return Stmt{start, std::move(statement)};
}

Result<Stmt> Parser::parse_with(Offset start) {
  With statement;
  while (!at(TokenType::block_end) && !at(TokenType::colon)) {
    if (!statement.assignments.empty()) TRY(expect(TokenType::comma, "','"));
    Target target = TRY(parse_target(false));
    TRY(expect(TokenType::assign, "'='"));
    statement.assignments.emplace_back(std::move(target), TRY(parse_expression()));
  }
  statement.body = TRY(parse_inner({"endwith"}));
  return Stmt{start, std::move(statement)};
}

Result<Stmt> Parser::parse_macro(Offset start) {
  const Token name = TRY(expect(TokenType::name, "the macro's name"));
  Macro macro;
  macro.name = std::string(name.text);
  macro.id = TRY(note_store(name));
  TRY(parse_signature(macro));
  TRY(parse_macro_body(macro, "endmacro"));
  return Stmt{start, std::move(macro)};
}

Result<Stmt> Parser::parse_call_block(Offset start) {
  CallBlock statement;
  if (at(TokenType::left_paren)) TRY(parse_signature(statement.caller));
  statement.call = TRY(parse_expression());
  const auto* postfix = std::get_if<Postfix>(&statement.call->what);
  if (postfix == nullptr || !std::holds_alternative<Call>(postfix->ops.back().what))
    return fail(start, "expected a call");
  TRY(parse_macro_body(statement.caller, "endcall"));
  return Stmt{start, std::move(statement)};
}

Result<void> Parser::parse_signature(Macro& macro) {
  macros_.emplace_back();  // the defaults belong to the macro's own scope
  TRY(expect(TokenType::left_paren, "'('"));
  while (!at(TokenType::right_paren)) {
    if (!macro.parameters.empty()) TRY(expect(TokenType::comma, "','"));
    const Token name = TRY(expect(TokenType::name, "a parameter's name"));
    if (is_literal_name(name.text)) return fail(name.at, fmt::format("cannot assign to '{}'", name.text));
    const NameId id = intern(name.text);
    if (std::ranges::find(macro.parameters, id) != macro.parameters.end()) {
      return fail(name.at, fmt::format("parameter '{}' is there twice", name.text));
    }
    if (accept(TokenType::assign)) {
      const bool was_soft = std::exchange(around_.is_soft, false);
      macro.defaults.push_back(TRY(parse_expression()));
      around_.is_soft = was_soft;
    } else if (!macro.defaults.empty()) {
      return fail(name.at, "a parameter without a default follows one with a default");
    }
    macro.parameters.push_back(id);
  }
  macros_.pop_back();
  take();
  return {};
}

Result<void> Parser::parse_macro_body(Macro& macro, std::string_view end_name) {
  macros_.emplace_back();
  const Surroundings outside = std::exchange(around_, {});
  macro.body = TRY(parse_inner({end_name}));
  around_ = outside;
  const Mentions mentions = macros_.back();
  macros_.pop_back();
  const auto parameter = [&](NameId id) { return std::ranges::find(macro.parameters, id); };
  const auto is_parameter = [&](NameId id) { return parameter(id) != macro.parameters.end(); };
  macro.uses_caller = mentions.seen[kCaller];
  macro.uses_kwargs = mentions.seen[kKwargs] && !is_parameter(kKwargs);
  macro.uses_varargs = mentions.seen[kVarargs] && !is_parameter(kVarargs);
  const auto n_without_default = static_cast<ptrdiff_t>(macro.parameters.size() - macro.defaults.size());
  if (macro.uses_caller && parameter(kCaller) - macro.parameters.begin() < n_without_default) {
    return fail(peek().at, "the parameter 'caller' needs a default");
  }
  return {};
}

Result<Stmt> Parser::parse_filter_block(Offset start) {
  FilterBlock statement;
  const bool was_soft = std::exchange(around_.is_soft, false);
  do {
    statement.filters.push_back(TRY(parse_filter()));
  } while (accept(TokenType::pipe));
  around_.is_soft = was_soft;
  statement.body = TRY(parse_inner({"endfilter"}));
  return Stmt{start, std::move(statement)};
}

// Marks what the model itself wrote, for training; here its text is just there.
Result<Stmt> Parser::parse_generation(Offset start) {
  const Surroundings outside = std::exchange(around_, {});
  Generation statement{TRY(parse_inner({"endgeneration"}))};
  around_ = outside;
  return Stmt{start, std::move(statement)};
}

Result<Stmt> Parser::parse_loop_control(Offset start, bool is_break) {
  if (around_.n_breakable == 0) return fail(start, fmt::format("'{}' outside a loop", is_break ? "break" : "continue"));
  if (is_break) return Stmt{start, Break{}};
  return Stmt{start, Continue{}};
}

Result<Target> Parser::parse_target(bool with_namespace) {
  const Offset start = peek().at;
  std::vector<Target> items;
  bool is_tuple = false;
  const auto at_end = [&] { return at(TokenType::block_end) || at(TokenType::right_paren) || at_name("in"); };
  while (!at_end()) {
    items.push_back(TRY(parse_target_item(with_namespace)));
    if (!accept(TokenType::comma)) break;
    is_tuple = true;
  }
  if (is_tuple) return Target{start, std::move(items)};
  if (items.empty()) return unexpected("a name to assign to");
  return std::move(items[0]);
}

Result<Target> Parser::parse_target_item(bool with_namespace) {
  const Nest nest(*this);
  TRY(check_depth());
  const Offset start = peek().at;
  if (accept(TokenType::left_paren)) {
    if (accept(TokenType::right_paren)) return Target{start, std::vector<Target>()};
    Target inner = TRY(parse_target(false));
    TRY(expect(TokenType::right_paren, "')'"));
    return inner;
  }
  const Token name = TRY(expect(TokenType::name, "a name to assign to"));
  if (with_namespace && at(TokenType::dot) && !is_literal_name(name.text)) {
    take();
    const Token attribute = TRY(expect(TokenType::name, "an attribute's name"));
    return Target{start, NamespaceTarget{note_load(name.text), std::string(attribute.text)}};
  }
  return Target{start, Name{TRY(note_store(name))}};
}

}  // namespace rocmforge::jinja
