// The parser's expressions, loosest binding first.

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "chat/jinja/filters.h"
#include "chat/jinja/parser.h"
#include "chat/jinja/text.h"

namespace rocmforge::jinja {
namespace {

template <class Node>
ExprPtr make(Offset at, Node node) {
  return std::make_unique<const Expr>(Expr{at, std::move(node)});
}

std::optional<CompareOp> comparison_of(TokenType type) {
  switch (type) {
    case TokenType::equal:
      return CompareOp::equal;
    case TokenType::not_equal:
      return CompareOp::not_equal;
    case TokenType::less:
      return CompareOp::less;
    case TokenType::less_equal:
      return CompareOp::less_equal;
    case TokenType::greater:
      return CompareOp::greater;
    case TokenType::greater_equal:
      return CompareOp::greater_equal;
    default:
      return std::nullopt;
  }
}

std::optional<BinaryOp> sum_of(TokenType type) {
  if (type == TokenType::add) return BinaryOp::add;
  if (type == TokenType::subtract) return BinaryOp::subtract;
  return std::nullopt;
}

std::optional<BinaryOp> product_of(TokenType type) {
  switch (type) {
    case TokenType::multiply:
      return BinaryOp::multiply;
    case TokenType::divide:
      return BinaryOp::divide;
    case TokenType::floor_divide:
      return BinaryOp::floor_divide;
    case TokenType::modulo:
      return BinaryOp::modulo;
    default:
      return std::nullopt;
  }
}

}  // namespace

ExprPtr Parser::constant(Offset start, Program::ConstantValue value) {
  program_.constants.push_back(std::move(value));
  return make(start, Constant{static_cast<uint32_t>(program_.constants.size() - 1)});
}

Result<ExprPtr> Parser::parse_tuple(bool with_conditional, bool in_parentheses) {
  const Offset start = peek().at;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  const auto at_end = [&] {
    return at(TokenType::variable_end) || at(TokenType::block_end) || at(TokenType::right_paren) ||
           (!with_conditional && at_name("recursive"));
  };
  while (!at_end()) {
    items.push_back(TRY(parse_expression(with_conditional)));
    if (!accept(TokenType::comma)) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return std::move(items[0]);
    if (!in_parentheses) return unexpected("an expression");
  }
  return make(start, TupleDisplay{std::move(items)});
}

Result<ExprPtr> Parser::parse_expression(bool with_conditional) {
  const Nest nest(*this);
  TRY(check_depth());
  return with_conditional ? parse_conditional() : parse_logic(true);
}

Result<ExprPtr> Parser::parse_conditional() {
  const Offset start = peek().at;
  const size_t n_unknown = unknown_.size();
  ExprPtr then = TRY(parse_logic(true));
  for (size_t n = depth_; accept_name("if"); n++) {
    if (n > limits_.max_depth) return fail(peek().at, "too many conditions in one expression");
    unknown_.resize(n_unknown);  // all of a conditional is soft, its first part too
    const bool was_soft = std::exchange(around_.is_soft, true);
    ExprPtr test = TRY(parse_logic(true));
    ExprPtr otherwise;
    if (accept_name("else")) otherwise = TRY(parse_expression());
    around_.is_soft = was_soft;
    then = make(start, Conditional{std::move(test), std::move(then), std::move(otherwise)});
  }
  return then;
}

// `or` over `and` over `not`.
Result<ExprPtr> Parser::parse_logic(bool is_or) {
  const Offset start = peek().at;
  const auto parse_operand = [&] { return is_or ? parse_logic(false) : parse_not(); };
  ExprPtr first = TRY(parse_operand());
  const std::string_view word = is_or ? "or" : "and";
  if (!at_name(word)) return first;
  Logic logic{is_or, {}};
  logic.operands.push_back(std::move(first));
  while (accept_name(word)) logic.operands.push_back(TRY(parse_operand()));
  return make(start, std::move(logic));
}

Result<ExprPtr> Parser::parse_not() {
  const Offset start = peek().at;
  if (!accept_name("not")) return parse_comparison();
  const Nest nest(*this);
  TRY(check_depth());
  return make(start, Unary{UnaryOp::logical_not, TRY(parse_not())});
}

Result<ExprPtr> Parser::parse_comparison() {
  const Offset start = peek().at;
  ExprPtr first = TRY(parse_sum());
  Comparison comparison;
  for (;;) {
    const Offset op_at = peek().at;
    std::optional<CompareOp> op = comparison_of(peek().type);
    if (op) {
      take();
    } else if (accept_name("in")) {
      op = CompareOp::in;
    } else if (at_name("not") && at_name("in", 1)) {
      take();
      take();
      op = CompareOp::not_in;
    } else {
      break;
    }
    comparison.rest.push_back({*op, op_at, TRY(parse_sum())});
  }
  if (comparison.rest.empty()) return first;
  comparison.first = std::move(first);
  return make(start, std::move(comparison));
}

Result<ExprPtr> Parser::parse_sum() {
  const Offset start = peek().at;
  ExprPtr first = TRY(parse_concat());
  if (!sum_of(peek().type)) return first;
  Arithmetic sum{std::move(first), {}};
  while (const auto op = sum_of(peek().type)) {
    const Offset op_at = take().at;
    sum.rest.push_back({*op, op_at, TRY(parse_concat())});
  }
  return make(start, std::move(sum));
}

Result<ExprPtr> Parser::parse_concat() {
  const Offset start = peek().at;
  ExprPtr first = TRY(parse_product());
  if (!at(TokenType::tilde)) return first;
  Concat concat;
  concat.parts.push_back(std::move(first));
  while (accept(TokenType::tilde)) concat.parts.push_back(TRY(parse_product()));
  return make(start, std::move(concat));
}

Result<ExprPtr> Parser::parse_product() {
  const Offset start = peek().at;
  ExprPtr first = TRY(parse_power());
  if (!product_of(peek().type)) return first;
  Arithmetic product{std::move(first), {}};
  while (const auto op = product_of(peek().type)) {
    const Offset op_at = take().at;
    product.rest.push_back({*op, op_at, TRY(parse_power())});
  }
  return make(start, std::move(product));
}

// Unlike Python's, Jinja's ** binds to the left, and looser than a sign.
Result<ExprPtr> Parser::parse_power() {
  const Offset start = peek().at;
  ExprPtr first = TRY(parse_unary());
  if (!at(TokenType::power)) return first;
  Arithmetic power{std::move(first), {}};
  while (at(TokenType::power)) {
    const Offset op_at = take().at;
    power.rest.push_back({BinaryOp::power, op_at, TRY(parse_unary())});
  }
  return make(start, std::move(power));
}

Result<ExprPtr> Parser::parse_unary(bool with_filters) {
  const Offset start = peek().at;
  ExprPtr operand;
  if (at(TokenType::subtract) || at(TokenType::add)) {
    const Nest nest(*this);
    TRY(check_depth());
    const UnaryOp op = take().type == TokenType::subtract ? UnaryOp::negate : UnaryOp::plus;
    operand = make(start, Unary{op, TRY(parse_unary(false))});
  } else {
    operand = TRY(parse_primary());
  }
  return parse_postfix(std::move(operand), with_filters);
}

Result<ExprPtr> Parser::parse_primary() {
  const Token& token = peek();
  switch (token.type) {
    case TokenType::name: {
      take();
      if (token.text == "true" || token.text == "True") return constant(token.at, true);
      if (token.text == "false" || token.text == "False") return constant(token.at, false);
      if (token.text == "none" || token.text == "None") return constant(token.at, nullptr);
      return make(token.at, Name{note_load(token.text)});
    }
    case TokenType::string:
      return parse_string();
    case TokenType::integer:
    case TokenType::real:
      return parse_number();
    case TokenType::left_paren: {
      take();
      ExprPtr inner = TRY(parse_tuple(true, true));
      TRY(expect(TokenType::right_paren, "')'"));
      return inner;
    }
    case TokenType::left_bracket:
      return parse_list();
    case TokenType::left_brace:
      return parse_dict();
    default:
      return unexpected("an expression");
  }
}

Result<ExprPtr> Parser::parse_string() {
  const Offset start = peek().at;
  std::string text;
  while (at(TokenType::string)) {
    auto part = unescape(peek().text);
    if (!part.ok()) return fail(peek().at, std::move(part).error().message);
    text += *part;
    take();
  }
  return constant(start, std::move(text));
}

Result<ExprPtr> Parser::parse_number() {
  const Token token = take();
  if (token.type == TokenType::real) {
    const auto value = parse_real(token.text);
    if (!value) return fail(token.at, "this is no number");
    return constant(token.at, *value);
  }
  const auto value = parse_integer(token.text, 0);
  if (!value) return fail(token.at, "an integer beyond 64 bits");
  return constant(token.at, *value);
}

Result<ExprPtr> Parser::parse_list() {
  const Offset start = take().at;
  ListDisplay list;
  while (!at(TokenType::right_bracket)) {
    if (!list.items.empty()) TRY(expect(TokenType::comma, "',' or ']'"));
    if (at(TokenType::right_bracket)) break;
    list.items.push_back(TRY(parse_expression()));
  }
  take();
  return make(start, std::move(list));
}

Result<ExprPtr> Parser::parse_dict() {
  const Offset start = take().at;
  DictDisplay dict;
  while (!at(TokenType::right_brace)) {
    if (!dict.items.empty()) TRY(expect(TokenType::comma, "',' or '}'"));
    if (at(TokenType::right_brace)) break;
    ExprPtr key = TRY(parse_expression());
    TRY(expect(TokenType::colon, "':'"));
    dict.items.emplace_back(std::move(key), TRY(parse_expression()));
  }
  take();
  return make(start, std::move(dict));
}

// First attributes, subscripts and calls; then, where allowed, filters, tests and calls of what they give.
Result<ExprPtr> Parser::parse_postfix(ExprPtr base, bool with_filters) {
  const Offset start = base->at;
  std::vector<PostfixOp> ops;
  for (bool before_filters = true;;) {
    if (before_filters && at(TokenType::dot)) {
      ops.push_back(TRY(parse_attribute()));
    } else if (before_filters && at(TokenType::left_bracket)) {
      ops.push_back(TRY(parse_subscript()));
    } else if (at(TokenType::left_paren)) {
      ops.push_back(TRY(parse_call()));
    } else if (with_filters && (at(TokenType::pipe) || at_name("is"))) {
      before_filters = false;
      if (accept(TokenType::pipe)) {
        ops.push_back(TRY(parse_filter()));
      } else {
        ops.push_back(TRY(parse_test()));
      }
    } else {
      break;
    }
  }
  if (ops.empty()) return base;
  return make(start, Postfix{std::move(base), std::move(ops)});
}

Result<PostfixOp> Parser::parse_attribute() {
  const Offset start = take().at;
  if (at(TokenType::integer)) return PostfixOp{start, Subscript{TRY(parse_number())}};
  const Token name = TRY(expect(TokenType::name, "a name or a number"));
  return PostfixOp{start, Attribute{std::string(name.text)}};
}

Result<PostfixOp> Parser::parse_subscript() {
  const Offset start = take().at;
  const auto at_part_end = [&] { return at(TokenType::colon) || at(TokenType::right_bracket) || at(TokenType::comma); };
  std::vector<ExprPtr> keys;
  while (!at(TokenType::right_bracket)) {
    if (!keys.empty()) TRY(expect(TokenType::comma, "',' or ']'"));
    ExprPtr parts[3];
    size_t n_colons = 0;
    if (!at(TokenType::colon)) parts[0] = TRY(parse_expression());
    while (n_colons < 2 && accept(TokenType::colon)) {
      n_colons++;
      if (!at_part_end()) parts[n_colons] = TRY(parse_expression());
    }
    if (n_colons > 0) {
      if (!keys.empty() || !at(TokenType::right_bracket)) return fail(start, "a slice stands alone in its brackets");
      take();
      return PostfixOp{start, Slice{std::move(parts[0]), std::move(parts[1]), std::move(parts[2])}};
    }
    keys.push_back(std::move(parts[0]));
  }
  take();
  if (keys.size() == 1) return PostfixOp{start, Subscript{std::move(keys[0])}};
  return PostfixOp{start, Subscript{make(start, TupleDisplay{std::move(keys)})}};
}

Result<PostfixOp> Parser::parse_call() {
  const Offset start = peek().at;
  return PostfixOp{start, Call{TRY(parse_call_args())}};
}

Result<CallArgs> Parser::parse_call_args() {
  const Offset start = TRY(expect(TokenType::left_paren, "'('")).at;
  CallArgs args;
  const auto invalid = [&] { return fail(start, "the arguments of this call are out of order"); };
  for (bool first = true; !at(TokenType::right_paren); first = false) {
    if (!first) {
      TRY(expect(TokenType::comma, "',' or ')'"));
      if (at(TokenType::right_paren)) break;
    }
    if (accept(TokenType::multiply)) {
      if (args.more_positional || args.more_named) return invalid();
      args.more_positional = TRY(parse_expression());
    } else if (accept(TokenType::power)) {
      if (args.more_named) return invalid();
      args.more_named = TRY(parse_expression());
    } else if (at(TokenType::name) && peek(1).type == TokenType::assign) {
      if (args.more_named) return invalid();
      const Token name = take();
      take();
      const bool repeated = std::ranges::any_of(args.named, [&](const auto& n) { return n.first == name.text; });
      if (repeated) return fail(name.at, fmt::format("keyword argument '{}' is there twice", name.text));
      args.named.emplace_back(std::string(name.text), TRY(parse_expression()));
    } else {
      if (args.more_positional || args.more_named || !args.named.empty()) return invalid();
      args.positional.push_back(TRY(parse_expression()));
    }
  }
  take();
  return args;
}

Result<std::string> Parser::parse_dotted_name() {
  std::string name(TRY(expect(TokenType::name, "a name")).text);
  while (accept(TokenType::dot)) {
    name += '.';
    name += TRY(expect(TokenType::name, "a name")).text;
  }
  return name;
}

Result<PostfixOp> Parser::parse_filter() {
  const Offset start = peek().at;
  FilterUse filter{TRY(parse_dotted_name()), nullptr, {}};
  filter.body = find_filter(filter.name);
  if (filter.body == nullptr && !around_.is_soft)
    unknown_.emplace_back(start, fmt::format("no filter named '{}'", filter.name));
  if (at(TokenType::left_paren)) filter.args = TRY(parse_call_args());
  return PostfixOp{start, std::move(filter)};
}

Result<PostfixOp> Parser::parse_test() {
  const Offset start = take().at;
  const bool negated = accept_name("not");
  TestUse test{TRY(parse_dotted_name()), nullptr, {}, negated};
  test.body = find_test(test.name);
  if (test.body == nullptr && !around_.is_soft)
    unknown_.emplace_back(start, fmt::format("no test named '{}'", test.name));
  if (at(TokenType::left_paren)) {
    test.args = TRY(parse_call_args());
    return PostfixOp{start, std::move(test)};
  }
  switch (peek().type) {  // one argument may stand without parentheses
    case TokenType::name:
      if (at_name("else") || at_name("or") || at_name("and")) break;
      if (at_name("is")) return fail(peek().at, "tests cannot be chained with 'is'");
      [[fallthrough]];
    case TokenType::string:
    case TokenType::integer:
    case TokenType::real:
    case TokenType::left_bracket:
    case TokenType::left_brace:
      test.args.positional.push_back(TRY(parse_postfix(TRY(parse_primary()), false)));
      break;
    default:
      break;
  }
  return PostfixOp{start, std::move(test)};
}

}  // namespace rocmforge::jinja
