#include "chat/jinja/template_generator.h"

namespace rocmforge::jinja {

std::string TemplateGenerator::random_text() {
  static const std::vector<std::string> kPieces = {
      "a",    "b c", "Hello", "World",   " ",      "\n",  "é",      "世界", "'",  "\"",
      "<b>",  "&",   "x=1",   "foo_bar", "1",      "2.5", "\t",     "ß",    "Éa", "\\",
      "</s>", "%d",  "{x}",   "aXbXc",   "  pad ", "😀",  "\u00a0", "-",    ",",  "tOtO"};
  std::string out;
  for (size_t n = below(4); n > 0; n--) out += pick(kPieces);
  return out;
}

JsonValue TemplateGenerator::random_scalar() {
  switch (below(6)) {
    case 0:
      return static_cast<int64_t>(below(20)) - 5;
    case 1:
      return (static_cast<double>(below(4000)) - 1000) / 8;
    case 2:
      return chance(50);
    case 3:
      return nullptr;
    default:
      return random_text();
  }
}

JsonValue TemplateGenerator::random_value(int depth) {
  if (depth == 0 || chance(50)) return random_scalar();
  if (chance(50)) {
    JsonArray items;
    for (size_t n = below(4); n > 0; n--) items.push_back(random_value(depth - 1));
    return items;
  }
  JsonObject members;
  static const std::vector<std::string> kKeys = {"a", "b", "name", "Key", "items", "z9", "é"};
  for (size_t i = below(kKeys.size()); i < kKeys.size() && chance(70); i++)
    members.emplace_back(kKeys[i], random_value(depth - 1));
  return members;
}

JsonValue TemplateGenerator::random_user() {
  JsonObject user;
  user.emplace_back("name", pick({"bob", "Ann", "carl", "ann", "Zoë", "dave"}));
  user.emplace_back("age", static_cast<int64_t>(below(6)));
  if (chance(60)) user.emplace_back("tag", random_text());
  JsonArray kids;
  for (size_t n = below(3); n > 0; n--)
    kids.push_back(JsonObject{{"name", JsonValue(random_text())}, {"kids", JsonValue(JsonArray{})}});
  user.emplace_back("kids", std::move(kids));
  return user;
}

JsonValue TemplateGenerator::make_context() {
  JsonObject context;
  context.emplace_back("i", static_cast<int64_t>(below(12)) - 3);
  context.emplace_back("j", static_cast<int64_t>(below(100)));
  context.emplace_back("f", (static_cast<double>(below(2000)) - 500) / 16);
  context.emplace_back("s", random_text());
  context.emplace_back("t", random_text() + random_text());
  context.emplace_back("yes", true);
  context.emplace_back("nothing", nullptr);
  JsonArray numbers, words, users, mixed;
  for (size_t n = below(6); n > 0; n--) numbers.push_back(static_cast<int64_t>(below(9)) - 2);
  for (size_t n = below(5); n > 0; n--) words.push_back(random_text());
  for (size_t n = below(5); n > 0; n--) users.push_back(random_user());
  for (size_t n = below(5); n > 0; n--) mixed.push_back(random_value(2));
  context.emplace_back("ln", std::move(numbers));
  context.emplace_back("lw", std::move(words));
  context.emplace_back("users", std::move(users));
  context.emplace_back("mixed", std::move(mixed));
  JsonObject d;
  d.emplace_back("a", random_value(2));
  d.emplace_back("name", random_text());
  d.emplace_back("items", static_cast<int64_t>(below(5)));
  if (chance(50)) d.emplace_back("b", random_value(1));
  context.emplace_back("d", std::move(d));
  return context;
}

std::string TemplateGenerator::make_template() {
  numbers_ = {"i", "j", "f"};
  texts_ = {"s", "t"};
  lists_ = {"ln", "lw", "users", "mixed"};
  n_names_ = 0;
  loop_depth_ = 0;
  may_break_ = false;
  std::string out;
  const int depth = static_cast<int>(1 + below(3));
  for (size_t n = 1 + below(3); n > 0; n--) out += statement(depth);
  if (chance(20)) out += "\n";
  return out;
}

std::string TemplateGenerator::statements(int depth) {
  const auto numbers = numbers_;
  const auto texts = texts_;
  const auto lists = lists_;
  std::string out;
  for (size_t n = 1 + below(3); n > 0; n--) out += statement(depth);
  numbers_ = numbers;
  texts_ = texts;
  lists_ = lists;
  return out;
}

std::string TemplateGenerator::data() {
  static const std::vector<std::string> kPieces = {"x", " ", "\n", "  \n", "text ", "\n\n",  "\t", "é ",
                                                   "{", "}", "%",  "#",    "\r\n",  "a\n  ", "  "};
  std::string out;
  for (size_t n = below(4); n > 0; n--) {
    const std::string& piece = pick(kPieces);
    // No accidental tags where two pieces meet.
    if (!out.empty() && out.back() == '{') out += ' ';
    out += piece;
  }
  if (!out.empty() && out.back() == '{') out += ' ';
  return out;
}

std::string TemplateGenerator::tag(const std::string& inside) {
  return "{%" + pick({"", "", "-", "+"}) + " " + inside + " " + pick({"", "", "-", "+"}) + "%}";
}
std::string TemplateGenerator::print(const std::string& inside) {
  return "{{" + pick({"", "", "-"}) + " " + inside + " " + pick({"", "", "-"}) + "}}";
}

std::string TemplateGenerator::loop_mention() {
  return pick({"loop.index", "loop.index0", "loop.revindex", "loop.revindex0", "loop.first", "loop.last", "loop.length",
               "loop.depth", "loop.depth0", "loop.previtem", "loop.nextitem", "loop.cycle('a', 1, [])",
               "loop.changed(i)", "loop.changed(loop.index // 2)", "loop.nextitem is defined",
               "loop.previtem|default('-')", "loop.cycle('odd', 'even')"});
}

std::string TemplateGenerator::for_statement(int depth) {
  const auto outer_numbers = numbers_;
  const auto outer_texts = texts_;
  const bool outer_break = may_break_;
  const std::string item = "v" + std::to_string(n_names_++);
  std::string head;
  std::string shown = item;
  switch (below(8)) {
    case 0:
      head = "for " + item + ", w in d.items()";
      shown = item + " ~ w";
      break;
    case 1:
      head = "for " + item + " in users" + pick({"", " if yes"});
      shown = item + ".name ~ " + item + "['age']";
      break;
    case 2:
      head = "for " + item + " in range(" + std::to_string(below(5)) + ")";
      numbers_.push_back(item);
      break;
    case 3:
      head = "for " + item + " in " + text(1);
      texts_.push_back(item);
      break;
    case 4:
      head = "for " + item + ", w in [(1, 'x'), (2, 'y'), ('é', none)]";
      shown = "(" + item + ", w)";
      break;
    case 5:
      head = "for " + item + " in users recursive";
      shown = item + ".name ~ (loop(" + item + ".kids) if " + item + ".kids else '')";
      break;
    case 6:
      head = "for " + item + " in ln if " + item + pick({" > 1", " is odd", " != i", ""});
      numbers_.push_back(item);
      break;
    default:
      head = "for " + item + " in " + list(1);
      break;
  }
  loop_depth_++;
  may_break_ = true;
  std::string body = print(shown) + data();
  for (size_t n = below(3); n > 0; n--) body += chance(50) ? print(loop_mention()) + data() : statement(depth - 1);
  loop_depth_--;
  may_break_ = outer_break;
  numbers_ = outer_numbers;
  texts_ = outer_texts;
  std::string out = tag(head) + data() + body;
  if (chance(25)) out += tag("else") + data() + "empty";
  return out + tag("endfor");
}

std::string TemplateGenerator::macro_statement(int depth) {
  const std::string name = "m" + std::to_string(n_names_++);
  const bool outer_break = std::exchange(may_break_, false);
  const int outer_loop = std::exchange(loop_depth_, 0);
  const auto outer_texts = texts_;
  texts_.push_back("p");
  const std::string body = statements(depth - 1);
  texts_ = outer_texts;
  may_break_ = outer_break;
  loop_depth_ = outer_loop;
  const std::string extra =
      pick({"", "{{ varargs }}", "{{ kwargs }}", "{{ q }}", "{{ caller() if caller else '' }}", "{{ p is defined }}"});
  std::string out = tag("macro " + name + "(p, q=" + expression(Type::any, 1) + ")") + body + extra + tag("endmacro");
  switch (below(5)) {
    case 0:
      out += print(name + "(" + text(1) + ")");
      break;
    case 1:
      out += print(name + "(" + text(1) + ", " + number(1) + pick({"", ", 3", ", z=1", ", *[1, 2]", ", **{'z': 1}"}) +
                   ")");
      break;
    case 2:
      out += print(name + "(q=" + text(1) + pick({"", ", p='P'"}) + ") | upper");
      break;
    case 3:
      out += tag("call " + name + "(" + text(1) + ")") + data() + "in" + tag("endcall");
      break;
    default:
      out += print("(" + name + "(" + text(1) + ") ~ " + number(1) + ")|length");
      break;
  }
  return out;
}

std::string TemplateGenerator::namespace_statement(int depth) {
  const std::string ns = "ns" + std::to_string(n_names_++);
  return tag("set " + ns + " = namespace(n=" + number(1) + ", l=[])") + tag("for k in " + list(1)) +
         tag("set " + ns + ".n = " + ns + ".n + " + number(1)) + tag("set " + ns + ".l = " + ns + ".l + [k]") +
         (depth > 1 ? statement(1) : "") + tag("endfor") + print(ns + ".n") + print(ns + ".l") +
         (chance(20) ? print(ns) : "");
}

std::string TemplateGenerator::statement(int depth) {
  if (depth <= 0) return chance(50) ? data() : print(expression(Type::any, 1)) + data();
  switch (below(16)) {
    case 0:
      return data() + tag("if " + boolean(2)) + statements(depth - 1) +
             (chance(40) ? tag("elif " + boolean(1)) + statements(depth - 1) : "") +
             (chance(50) ? tag("else") + statements(depth - 1) : "") + tag("endif");
    case 1:
    case 2:
      return data() + for_statement(depth);
    case 3:
      return macro_statement(depth);
    case 4:
      return namespace_statement(depth);
    case 5: {
      const std::string name = "x" + std::to_string(n_names_++);
      const Type type = pick(std::vector<Type>{Type::number, Type::text, Type::list});
      std::string out = tag("set " + name + " = " + expression(type, 2)) + data();
      (type == Type::number ? numbers_ : type == Type::text ? texts_ : lists_).push_back(name);
      return out;
    }
    case 6: {
      const std::string name = "x" + std::to_string(n_names_++);
      std::string out = tag("set " + name + pick({"", "|upper", "|trim", "|replace('a', 'bb')|length|string"})) +
                        statements(depth - 1) + tag("endset");
      texts_.push_back(name);
      return out;
    }
    case 7:
      return tag("filter " + pick({"upper", "trim", "replace('e', 'E')", "indent(2)", "title", "lower|capitalize"})) +
             statements(depth - 1) + tag("endfilter");
    case 8:
      return tag("with w1 = " + number(1) + ", w2 = " + text(1)) + print("w1 ~ w2") + statements(depth - 1) +
             tag("endwith");
    case 9:
      return "{#" + pick({"", "-", "+"}) + " note " + pick({"", "-", "+"}) + "#}" + data();
    case 10:
      return "{%" + pick({"", "-", "+"}) + " raw " + pick({"", "-"}) + "%}" +
             pick({"{{ x }}", "{% if %}", " \n a ", "{#"}) + "{%" + pick({"", "-", "+"}) + " endraw " +
             pick({"", "-", "+"}) + "%}" + data();
    case 11:
      if (may_break_) return tag("if " + boolean(1)) + data() + tag(pick({"break", "continue"})) + tag("endif");
      return data();
    case 12: {
      const bool outer_break = std::exchange(may_break_, false);
      std::string out = tag("generation") + statements(depth - 1) + tag("endgeneration");
      may_break_ = outer_break;
      return out;
    }
    case 13:
      return tag("set a1, b1 = " + pick({"1, 'x'", "[s, t]", "'xy'", "(1, 2, 3)", "d.items()|list|first"})) +
             print("a1 ~ b1");
    default:
      return data() + print(expression(Type::any, 3)) + data();
  }
}

}  // namespace rocmforge::jinja
