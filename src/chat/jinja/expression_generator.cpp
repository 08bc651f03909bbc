// The generator's expressions.

#include "chat/jinja/template_generator.h"

namespace rocmforge::jinja {

std::string TemplateGenerator::number_literal() {
  return pick({"0", "1", "2", "3", "-1", "7", "10", "1.5", "0.1", "2.0", "1e3", "-2.25", "1_000", "0x1f", "100", "1e-7",
               "123456789012", "3.0e16"});
}

std::string TemplateGenerator::text_literal() {
  return pick({"''", "'a'", "\"it's\"", "'Hello World'", "'x\\ny'", "'a,b,,c'", "'  pad  '", "'é世'", "'<a & \"b\">'",
               "'abcabc'", "'tab\\there'", "'12'", "'-3.5'", "'%s'", "'\\u00e9\\x41'", "'a' 'b'",
               "'line1\\nline2\\n\\nline3'", "'MiXed case tEXT'"});
}

std::string TemplateGenerator::leaf(Type type) {
  if (chance(4)) return pick({"missing", "nothing", "d.nope", "s", "i", "ln"});
  switch (type) {
    case Type::number:
      return chance(50) ? number_literal() : pick(numbers_);
    case Type::text:
      return chance(50) ? text_literal() : pick(texts_);
    case Type::boolean:
      return pick({"true", "false", "yes", "True"});
    case Type::list:
      return chance(40) ? pick({"[1, 2, 3]", "['b', 'a', 'C']", "[]", "[1, 'x', none, 2.5]", "(1, 2)", "[[1], [2, 3]]",
                                "range(4)"})
                        : pick(lists_);
    case Type::dict:
      return pick({"d", "{'a': 1, 'b': 'two'}", "{}", "{'z': [1], 'y': {'x': none}}",
                   "{1: 'one', 2.5: 'f', none: 0, true: 'T'}", "dict(a=1, b=s)"});
    case Type::any:
      return leaf(pick(std::vector<Type>{Type::number, Type::text, Type::boolean, Type::list, Type::dict}));
  }
  return "0";
}

std::string TemplateGenerator::expression(Type type, int depth) {
  if (depth <= 0) return leaf(type);
  if (chance(3)) type = Type::any;
  if (chance(8))
    return "(" + expression(type, depth - 1) + " if " + boolean(depth - 1) +
           (chance(80) ? " else " + expression(type, depth - 1) : "") + ")";
  switch (type) {
    case Type::number:
      return number(depth);
    case Type::text:
      return text(depth);
    case Type::boolean:
      return boolean(depth);
    case Type::list:
      return list(depth);
    case Type::dict:
      return dict(depth);
    case Type::any:
      return expression(pick(std::vector<Type>{Type::number, Type::text, Type::boolean, Type::list, Type::dict}),
                        depth);
  }
  return "0";
}

std::string TemplateGenerator::slice() {
  // Not any number: on literals, Jinja's optimizer turns the error of a wrong bound into an undefined value.
  const auto bound = [&] {
    return chance(40) ? "" : pick({"0", "1", "2", "-1", "-2", "4", "-5", "9", "i", "nothing", "j"});
  };
  std::string out = "[" + bound() + ":" + bound();
  if (chance(40)) out += ":" + std::string(pick({"1", "2", "-1", "-2", ""}));
  return out + "]";
}

std::string TemplateGenerator::number(int depth) {
  if (depth <= 0) return leaf(Type::number);
  const auto n = [&] { return number(depth - 1); };
  switch (below(16)) {
    case 0:
    case 1:
      return n() + pick({" + ", " - ", " * ", "+", " -"}) + n();
    case 2:
      return "(" + n() + pick({" / ", " // ", " % "}) + n() + ")";
    case 3:
      return n() + " + " + n() + " * " + n() + " - " + n();
    case 4:
      return "-" + leaf(Type::number) + pick({"", "|abs", " ** 2"});
    case 5:
      return "(" + pick({"i", "2", "1.5", "-3"}) + " ** " + pick({"2", "3", "0", "-1", "0.5"}) + ")";
    case 6:
      return "(" + text(depth - 1) + ")|length";
    case 7:
      return "(" + list(depth - 1) + ")|" +
             pick({"length", "count", "sum", "first", "last", "max", "min", "sum(start=1)"});
    case 8:
      return "(" + n() + ")|" +
             pick({"abs", "int", "float", "round", "round(1)", "round(2, 'floor')", "round(1, 'ceil')", "round(-1)",
                   "string|int", "default(3)"});
    case 9:
      return "(" + text(depth - 1) + ")|" +
             pick({"int", "int(7)", "int(default=-1)", "float", "float(1.5)", "wordcount", "int(0, 16)"});
    case 10:
      return "(" + text(depth - 1) + ")." +
             pick({"find('a')", "rfind('a')", "count('a')", "index('a')", "find('c', 1)", "count('')",
                   "find('b', -3, 10)"});
    case 11:
      return "(" + list(depth - 1) + ")." + pick({"index(1)", "count(1)", "count('a')"});
    case 12:
      return "ln[" + pick({"0", "-1", "1", "i", "20"}) + "]";
    case 13:
      return "users" + pick({"|sum(attribute='age')", "|map(attribute='age')|list|length", "[0].age", "|length",
                             "|map(attribute='age')|max"});
    case 14:
      return "(" + boolean(depth - 1) + ") + " + n();
    default:
      return leaf(Type::number);
  }
}

std::string TemplateGenerator::percent_format(int depth) {
  switch (below(5)) {
    case 0:
      return "'%s and %r' % (" + expression(Type::any, depth - 1) + ", " + text(depth - 1) + ")";
    case 1:
      return "'" +
             std::string(pick({"%d", "%5d|", "%-5d|", "%05d", "%+d", "%x", "%o", "%.2f", "%8.3f", "%e", "%g", "%.3g",
                               "%5.1f%%", "%X", "%i"})) +
             "' % (" + number(depth - 1) + ",)";
    case 2:
      return "'%(a)s %(b)r' % {'a': " + expression(Type::any, depth - 1) + ", 'b': 1}";
    case 3:
      return "'%-8s|%8s|%.2s' % (" + text(depth - 1) + ", " + text(depth - 1) + ", s)";
    default:
      return "'%s-%s'|format(" + expression(Type::any, depth - 1) + ", " + number(depth - 1) + ")";
  }
}

std::string TemplateGenerator::format_call(int depth) {
  switch (below(5)) {
    case 0:
      return "'{} {}'.format(" + expression(Type::any, depth - 1) + ", " + expression(Type::any, depth - 1) + ")";
    case 1:
      return "'" + std::string(pick({"{:d}", "{:5}|",  "{:<6}|", "{:^7}|", "{:06.2f}", "{:+}",      "{:,}",
                                     "{:_}", "{:.3e}", "{:g}",   "{:%}",   "{:.1%}",   "{:x}",      "{:#x}",
                                     "{:b}", "{:*>8}", "{:=+8}", "{:.3}",  "{:n}",     "{:010,.2f}"})) +
             "'.format(" + number(depth - 1) + ")";
    case 2:
      return "'" + std::string(pick({"{:>8}|", "{:.2}", "{!r}", "{:^9s}|", "{:é<5}", "{{}}{}", "{0}{0}"})) +
             "'.format(" + text(depth - 1) + ")";
    case 3:
      return "'{a} {b[a]} {b[name]} {0[0]}'.format(lw, a=" + text(depth - 1) + ", b=d)";
    default:
      return "'{:{w}}|{!s:>{w}}'.format(" + text(depth - 1) + ", " + number(depth - 1) +
             ", w=" + std::to_string(below(9)) + ")";
  }
}

std::string TemplateGenerator::text(int depth) {
  if (depth <= 0) return leaf(Type::text);
  const auto t = [&] { return text(depth - 1); };
  switch (below(20)) {
    case 0:
      return t() + " + " + t();
    case 1:
      return expression(Type::any, depth - 1) + " ~ " + expression(Type::any, depth - 1) + pick({"", " ~ i"});
    case 2:
      return "(" + t() + ")" + slice();
    case 3:
    case 4:
      return "(" + t() + ")." +
             pick({"upper()",
                   "lower()",
                   "strip()",
                   "lstrip()",
                   "rstrip()",
                   "title()",
                   "capitalize()",
                   "swapcase()",
                   "strip('a ')",
                   "lstrip('aH')",
                   "rstrip('\\n c')",
                   "zfill(6)",
                   "center(9)",
                   "center(8, '*')",
                   "ljust(7, '-')",
                   "rjust(7)",
                   "expandtabs(4)",
                   "casefold()",
                   "removeprefix('a')",
                   "removesuffix('c')",
                   "replace('a', 'é')",
                   "replace('', '-')",
                   "replace('b', '', 1)",
                   "split()[0]",
                   "split(',')|last",
                   "partition(',')[2]",
                   "rpartition(' ')[0]",
                   "format()",
                   "join(['1', '2'])"});
    case 5:
    case 6:
      return "(" + t() + ")|" +
             pick({"upper",
                   "lower",
                   "trim",
                   "title",
                   "capitalize",
                   "replace('a', 'b')",
                   "replace('e', '', 1)",
                   "reverse",
                   "indent",
                   "indent(2, true)",
                   "indent('> ', blank=true)",
                   "truncate(5)",
                   "truncate(4, true)",
                   "truncate(3, true, '', 0)",
                   "center(12)",
                   "string",
                   "e",
                   "escape",
                   "forceescape",
                   "urlencode",
                   "default('none')",
                   "first",
                   "last",
                   "trim('a')",
                   "list|join('-')",
                   "safe"});
    case 7:
      return "(" + expression(Type::any, depth - 1) + ")|" +
             pick({"string", "tojson", "tojson(indent=2)", "tojson(ensure_ascii=true)", "tojson(separators=(',', ':'))",
                   "tojson(sort_keys=true)", "tojson(indent=1, sort_keys=true)", "tojson(indent='\\t')",
                   "default('d', true)"});
    case 8:
      return "(" + list(depth - 1) + ")|" +
             pick({"join", "join(', ')", "join(1)", "map('string')|join('/')", "first|string", "map('upper')|join"});
    case 9:
      return percent_format(depth);
    case 10:
      return format_call(depth);
    case 11:
      return "(" + t() + ") * " + pick({"2", "0", "3", "-1", "i"});
    case 12:
      return "users|" +
             pick({"map(attribute='name')|join(', ')", "join('|', attribute='name')",
                   "map(attribute='tag', default='?')|join(',')", "selectattr('age')|map(attribute='name')|list|string",
                   "map(attribute='kids.0.name')|list|string"});
    case 13:
      return "d" + pick({".name", "['name']", ".get('name')", ".get('nope', 'fallback')", ".items is callable",
                         "['items']|string", ".name|default('x')", "|attr('name')|default('noattr')"});
    case 14:
      return "(" + t() + ")[" + pick({"0", "-1", "i", "50"}) + "]";
    case 15:
      return "(" + t() + ")." +
             pick({"isdigit()",
                   "isalpha()",
                   "isalnum()",
                   "isspace()",
                   "isupper()",
                   "islower()",
                   "istitle()",
                   "isascii()",
                   "isnumeric()",
                   "isdecimal()",
                   "startswith('a')",
                   "endswith(('c', 'd'))",
                   "startswith('H', 0, 3)",
                   "splitlines()",
                   "splitlines(true)",
                   "split('a', 1)",
                   "rsplit(',', 1)",
                   "rsplit()",
                   "split(maxsplit=1)",
                   "partition('b')"}) +
             "|string";
    case 16:
      return "strftime_now('" + std::string(pick({"%Y-%m-%d", "%d %b %Y", "%H:%M:%S", "%A %B %j", "%y%%"})) + "')";
    case 17:
      return loop_depth_ > 0 ? loop_mention() + "|string" : t();
    default:
      return leaf(Type::text);
  }
}

std::string TemplateGenerator::boolean(int depth) {
  if (depth <= 0) return leaf(Type::boolean);
  const auto b = [&] { return boolean(depth - 1); };
  const auto any = [&] { return expression(Type::any, depth - 1); };
  switch (below(16)) {
    case 0:
      return b() + pick({" and ", " or "}) + b();
    case 1:
      return "not " + b();
    case 2:
      return number(depth - 1) + pick({" < ", " <= ", " > ", " >= ", " == ", " != "}) + number(depth - 1);
    case 3:
      return number(depth - 1) + " < " + number(depth - 1) + " <= " + number(depth - 1);
    case 4:
      return text(depth - 1) + pick({" == ", " != ", " < ", " >= ", " in ", " not in "}) + text(depth - 1);
    case 5:
      return "(" + any() + ")" + pick({" in ", " not in "}) + "(" + list(depth - 1) + ")";
    case 6:
      return "'a' in " + dict(depth - 1);
    case 7:
    case 8:
      return "(" + any() + ") is " +
             pick({"defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping",
                   "sequence", "iterable", "true", "false", "callable", "not string", "not none", "not defined"});
    case 9:
      return "(" + number(depth - 1) + ") is " +
             pick({"odd", "even", "divisibleby 3", "divisibleby(2)", "gt 1", "lt(5)", "eq 2", "ne 0", "ge 1", "le(2)",
                   "greaterthan 3", "sameas 1", "in [1, 2]"});
    case 10:
      return "(" + text(depth - 1) + ") is " +
             pick({"upper", "lower", "string", "in 'abc'", "eq 'a'", "filter", "test", "escaped"});
    case 11:
      return any() + " == " + any();
    case 12:
      return "(" + list(depth - 1) + ") == (" + list(depth - 1) + ")";
    case 13:
      return b() + " and " + b() + " or not " + b();
    case 14:
      return "(" + any() + ") and (" + any() + ")";
    default:
      return leaf(Type::boolean);
  }
}

std::string TemplateGenerator::list(int depth) {
  if (depth <= 0) return leaf(Type::list);
  const auto l = [&] { return list(depth - 1); };
  switch (below(15)) {
    case 0:
      return "(" + l() + ")" + slice();
    case 1:
      return "(" + l() + " + " + l() + ")";
    case 2:
      return "[" + expression(Type::any, depth - 1) + ", " + expression(Type::any, depth - 1) + "]";
    case 3:
      return "(" + expression(Type::any, depth - 1) + "," + pick({"", " 1"}) + ")";
    case 4:
    case 5:
      return "(" + l() + ")|" +
             pick({"sort",
                   "sort(reverse=true)",
                   "sort(case_sensitive=true)",
                   "reverse|list",
                   "unique|list",
                   "list",
                   "batch(2)|list",
                   "batch(3, 'x')|list",
                   "slice(2)|list",
                   "slice(3, none)|list",
                   "map('string')|list",
                   "map('upper')|list",
                   "select|list",
                   "reject('none')|list",
                   "select('string')|list",
                   "select('>', 1)|list",
                   "reject('odd')|list",
                   "map('int')|list",
                   "map('default', 'z')|list",
                   "select('in', [1, 2])|list",
                   "map('length')|list"});
    case 6:
      return "users|" +
             pick({"sort(attribute='name')|map(attribute='name')|list", "selectattr('age', 'gt', 2)|list",
                   "rejectattr('tag', 'defined')|list", "groupby('age')", "groupby('name')|map('first')|list",
                   "sort(attribute='age,name')|map(attribute='name')|list", "map(attribute='tag')|list",
                   "selectattr('name', 'equalto', 'bob')|list", "unique(attribute='age')|list",
                   "groupby('tag', default='-')|list", "max(attribute='age')|default([])|list",
                   "rejectattr('age')|list"});
    case 7:
      return "(" + dict(depth - 1) + ")|" +
             pick({"dictsort", "dictsort(by='value')", "dictsort(reverse=true)", "list", "items|list",
                   "dictsort(true)"});
    case 8:
      return "(" + dict(depth - 1) + ")." +
             pick({"keys()", "values()", "items()", "items()|list", "keys()|list", "values()|list"});
    case 9:
      return "(" + text(depth - 1) + ")|list";
    case 10:
      return "(" + text(depth - 1) + ")." + pick({"split()", "split(',')", "splitlines()", "split('a')"});
    case 11:
      return "range(" + pick({"3", "1, 5", "0, 10, 3", "5, 0, -2", "i", "i, j"}) + ")";
    case 12:
      return "(" + l() + ") * " + pick({"2", "0"});
    case 13:
      return "namespace(x=" + expression(Type::list, depth - 1) + ").x";
    default:
      return leaf(Type::list);
  }
}

std::string TemplateGenerator::dict(int depth) {
  if (depth <= 0) return leaf(Type::dict);
  switch (below(6)) {
    case 0:
      return "{'k': " + expression(Type::any, depth - 1) + ", " + text_literal() + ": " +
             expression(Type::any, depth - 1) + "}";
    case 1:
      return "dict(" + dict(depth - 1) + ", z=" + expression(Type::any, depth - 1) + ")";
    case 2:
      return "dict(" + pick({"[('a', 1), ('b', 2)]", "d.items()", "[['x', none]]", "d"}) + ")";
    case 3:
      return "users[" + pick({"0", "-1", "1"}) + "]";
    case 4:
      return "{" + number_literal() + ": " + expression(Type::any, depth - 1) + "}";
    default:
      return leaf(Type::dict);
  }
}

}  // namespace rocmforge::jinja
