// The language by example, and where errors are said to be.

#include "chat/jinja/template.h"

#include <gtest/gtest.h>

#include <string>

#include "base/json.h"

namespace rocmforge::jinja {
namespace {

// The text, or "code: message".
std::string outcome(std::string_view source, std::string_view context = "{}") {
  const auto result = render(source, *parse_json(context));
  return result.ok() ? *result : std::string(error_name(result.error().code)) + ": " + result.error().message;
}

TEST(JinjaTemplate, RendersAConversation) {
  EXPECT_EQ(
      outcome("{% for m in messages %}<|{{ m.role }}|>\n{{ m['content'] }}{{ eos }}\n{% endfor %}",
              R"({"eos": "</s>", "messages": [{"role": "user", "content": "Hi"}, {"role": "bot", "content": "Ho"}]})"),
      "<|user|>\nHi</s>\n<|bot|>\nHo</s>\n");
}

TEST(JinjaTemplate, ControlsWhitespace) {
  EXPECT_EQ(outcome("a\n  {% if true %}\n  b\n  {% endif %}\nc\n"), "a\n  b\nc");
  EXPECT_EQ(outcome("a\n  {%- if true -%}\n  b\n  {%- endif -%}\nc\n"), "abc");
  EXPECT_EQ(outcome("a  {%+ if true %}\n  {%+ endif +%}\nc\n\n"), "a    \nc\n");
  EXPECT_EQ(outcome("a\n {{- 'b' -}} \nc {# x #}\n {#- y -#} d"), "abc d");
  EXPECT_EQ(outcome("{% raw %} {{ x }} {% endraw %}\r\nz\r"), " {{ x }} z");
}

TEST(JinjaTemplate, ScopesVariablesAsJinjaDoes) {
  EXPECT_EQ(outcome("{% set x = 1 %}{% for i in [2, 3] %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}"), "12131");
  EXPECT_EQ(outcome("{% if true %}{% set x = 1 %}{% endif %}{{ x }}"), "1");
  EXPECT_EQ(outcome("{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}"), "2");
  EXPECT_EQ(outcome("{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y }}"), "1");
  EXPECT_EQ(outcome("{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}"), "1");
  EXPECT_EQ(outcome("{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3) }}"), "11123");
  EXPECT_EQ(outcome("{% for x in [1, 2] %}{% continue %}{% else %}none finished{% endfor %}"), "none finished");
  EXPECT_EQ(outcome("{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}{{ x }}"), "1");
}

TEST(JinjaTemplate, ReadsLoopConditionsLazily) {
  EXPECT_EQ(outcome("{% set ns = namespace(seen=[]) %}{% for x in [1, 2, 1, 3] if x not in ns.seen %}"
                    "{% set ns.seen = ns.seen + [x] %}{{ x }}{% endfor %}"),
            "123");
}

TEST(JinjaTemplate, WalksIteratorsOnce) {
  EXPECT_EQ(outcome("{% set x = [1, 2]|map('string') %}{{ x|list }}{{ x|list }}"), "['1', '2'][]");
  EXPECT_EQ(outcome("{{ ([1, 'a', none]|map('abs')|first) }}"), "1");
  EXPECT_EQ(outcome("{{ [1, 'a']|map('abs')|list }}"),
            "template_runtime: template: line 1, column 24: bad operand type for abs(): 'str'");
  EXPECT_EQ(outcome("{{ [1]|map('string')|tojson }}"),
            "template_runtime: template: line 1, column 22: Object of type generator is not JSON serializable");
}

TEST(JinjaTemplate, TreatsUndefinedGently) {
  EXPECT_EQ(outcome("[{{ x }}]{{ x is defined }}{{ x|default('d') }}{{ x|length }}{{ x|list }}{% for i in x %}{% "
                    "endfor %}{{ x == y }}"),
            "[]Falsed0[]True");
  EXPECT_EQ(outcome("{{ x.y }}"), "template_runtime: template: line 1, column 5: 'x' is undefined");
  EXPECT_EQ(outcome("{{ {}.y.z }}"),
            "template_runtime: template: line 1, column 8: 'dict object' has no attribute 'y'");
  EXPECT_EQ(outcome("{{ x + 1 }}"), "template_runtime: template: line 1, column 6: 'x' is undefined");
}

TEST(JinjaTemplate, KnowsEscapedText) {
  EXPECT_EQ(outcome("{{ '<a>' + ('<b>'|safe) }}{{ ('<b>'|safe) ~ '<c>' }}{{ ('<b>'|safe).upper() + '&' }}"),
            "&lt;a&gt;<b><b><c><B>&amp;");
  EXPECT_EQ(outcome("{{ ['<'|e] }}{{ '<'|e|e }}{{ '<'|e|forceescape }}"), "[Markup('&lt;')]&lt;&amp;lt;");
}

TEST(JinjaTemplate, SaysWhereAndWhat) {
  EXPECT_EQ(outcome("line one\n  {{ 'é' + 1 }}"),
            "template_runtime: template: line 2, column 10: can only concatenate str (not \"int\") to str");
  EXPECT_EQ(outcome("{% if x %}\n{% for y in z %}\n"),
            "template_syntax: template: line 2, column 17: expected a tag 'endfor', found the end of the template");
  EXPECT_EQ(outcome("\n\n   {% iff x %}"), "template_syntax: template: line 3, column 7: unknown tag 'iff'");
  EXPECT_EQ(outcome("{{ 'abc }}"), "template_syntax: template: line 1, column 4: this string has no end");
  EXPECT_EQ(outcome("{{ (1 }}"), "template_syntax: template: line 1, column 7: unexpected '}', expected ')'");
  EXPECT_EQ(outcome("{{ 1 ! 2 }}"), "template_syntax: template: line 1, column 6: unexpected character '!'");
  EXPECT_EQ(outcome("{{ raise_exception('no ' ~ 1) }}"), "template_raised: template: line 1, column 19: no 1");
  EXPECT_EQ(outcome("{% macro m() %}{{ 1 / 0 }}{% endmacro %}\n{{ m() }}"),
            "template_runtime: template: line 1, column 21: division by zero");
  EXPECT_EQ(outcome("\xff"), "template_syntax: template: the text is not UTF-8");
  EXPECT_EQ(outcome("{% break %}"), "template_syntax: template: line 1, column 4: 'break' outside a loop");
  EXPECT_EQ(outcome("{% filter length %}abc{% endfilter %}"),
            "template_runtime: template: line 1, column 4: expected str instance, int found");
}

// As in Jinja: inside an `if` an unknown filter fails only when it is reached, elsewhere at once.
TEST(JinjaTemplate, RefusesUnknownFilters) {
  EXPECT_EQ(outcome("{% if false %}{{ 1|nope }}{% endif %}{{ 1|nope if false }}ok"), "ok");
  EXPECT_EQ(outcome("{% if true %}{{ 1|nope }}{% endif %}"),
            "template_runtime: template: line 1, column 19: no filter named 'nope'");
  EXPECT_EQ(outcome("{% macro m() %}{{ 1|nope }}{% endmacro %}"),
            "template_syntax: template: line 1, column 21: no filter named 'nope'");
  EXPECT_EQ(outcome("{% if false %}{% for x in y %}{{ x is nope }}{% endfor %}{% endif %}"),
            "template_syntax: template: line 1, column 36: no test named 'nope'");
}

}  // namespace
}  // namespace rocmforge::jinja
