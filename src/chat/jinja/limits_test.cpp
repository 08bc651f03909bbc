// What a hostile template or context may try: T1-T5 of the reliability notes. Every one ends in an error value.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>

#include "base/json.h"
#include "chat/jinja/runtime.h"
#include "chat/jinja/template.h"
#include "chat/jinja/value.h"
#include "support/colliding_keys.h"
#include "support/cpu_time.h"

namespace rocmforge::jinja {
namespace {

std::string repeated(std::string_view text, size_t n) {
  std::string out;
  for (size_t i = 0; i < n; i++) out += text;
  return out;
}

// The text, or the error's name.
std::string outcome(std::string_view source, const JsonValue& context = JsonObject{}) {
  // No wall clock: these limits must hold by the count of steps alone.
  RenderOptions options;
  options.clock = [] { return TimePoint(); };
  const auto result = render(source, context, options);
  return result.ok() ? *result : std::string(error_name(result.error().code));
}

TEST(JinjaSandbox, HidesPythonInternals) {
  for (const char* name : {"__class__", "__mro__", "__subclasses__", "__globals__", "__init__"}) {
    for (const char* value : {"''", "[]", "{}", "1", "range", "m", "namespace()", "loop", "(1|string)", "''.upper"}) {
      const std::string prefix = "{% macro m() %}{% endmacro %}{% for x in [1] %}";
      const std::string expression = std::string(value) + "." + name;
      EXPECT_EQ(outcome(prefix + "{{ " + expression + " }}{% endfor %}"), "") << expression;
      EXPECT_EQ(outcome(prefix + "{{ " + expression + "() }}{% endfor %}"), "template_runtime") << expression;
      EXPECT_EQ(outcome(prefix + "{{ " + expression + ".x }}{% endfor %}"), "template_runtime") << expression;
      EXPECT_EQ(outcome(prefix + "{{ (" + value + ")['" + name + "'] is defined }}{% endfor %}"), "False")
          << expression;
      EXPECT_EQ(outcome(prefix + "{{ " + value + "|attr('" + name + "') }}{% endfor %}"), "") << expression;
    }
  }
  EXPECT_EQ(outcome("{{ '{0.__class__}'.format(1) }}"), "");
  EXPECT_EQ(outcome("{{ '{0.__class__.__mro__}'.format(1) }}"), "template_runtime");
  EXPECT_EQ(outcome("{{ '{x[__class__]}'.format_map({'x': {}}) }}"), "");
}

TEST(JinjaSandbox, ChangesNothingItWasGiven) {
  for (const char* call :
       {"[1].append(2)", "[1].pop()", "[2].sort()", "{'a': 1}.update({})", "{'a': 1}.pop('a')", "[].clear()"}) {
    EXPECT_EQ(outcome(std::string("{{ ") + call + " }}"), "template_runtime") << call;
  }
  EXPECT_EQ(outcome("{{ [].append is defined }}"), "False");
  EXPECT_EQ(outcome("{% set d = {} %}{% set d.x = 1 %}"), "template_runtime");
}

TEST(JinjaSandbox, RefusesOtherTemplates) {
  for (const char* tag : {"include 'x'", "import 'x' as y", "from 'x' import y", "extends 'x'", "block b",
                          "autoescape true", "do x", "debug"}) {
    EXPECT_EQ(outcome(std::string("{% ") + tag + " %}"), "template_syntax") << tag;
  }
}

TEST(JinjaLimits, RefusesLongSource) {
  EXPECT_EQ(outcome(std::string((1u << 20) + 1, 'x')), "template_limit");
  EXPECT_EQ(outcome(std::string(1u << 20, 'x')).size(), 1u << 20);
}

TEST(JinjaLimits, RefusesDeepNesting) {
  constexpr size_t kDeep = 100'000;
  EXPECT_EQ(outcome("{{ " + std::string(kDeep, '(') + "1" + std::string(kDeep, ')') + " }}"), "template_limit");
  EXPECT_EQ(outcome("{{ " + std::string(kDeep, '[') + std::string(kDeep, ']') + " }}"), "template_limit");
  EXPECT_EQ(outcome("{{ " + repeated("{1:", kDeep) + "1" + std::string(kDeep, '}') + " }}"), "template_limit");
  EXPECT_EQ(outcome("{{ " + repeated("not ", kDeep) + "1 }}"), "template_limit");
  EXPECT_EQ(outcome("{{ " + repeated("-", kDeep) + "1 }}"), "template_limit");
  EXPECT_EQ(outcome("{{ " + repeated("x(", kDeep) + repeated(")", kDeep) + " }}"), "template_limit");
  EXPECT_EQ(outcome("{{ " + repeated("1 if 1 else ", kDeep) + "1 }}"), "template_limit");
  EXPECT_EQ(outcome("{{ 1" + repeated(" if 1", kDeep) + " }}"), "template_syntax");
  EXPECT_EQ(outcome(repeated("{% if 1 %}", 50'000) + repeated("{% endif %}", 40'000)), "template_limit");
  EXPECT_EQ(outcome("{% set " + std::string(kDeep, '(') + "a" + std::string(kDeep, ')') + " = 1 %}"), "template_limit");
  EXPECT_EQ(outcome("{{ " + std::string(50, '(') + "1" + std::string(50, ')') + " }}"), "1");
}

TEST(JinjaLimits, TakesLongChains) {
  EXPECT_EQ(outcome("{{ 0" + repeated(" + 1", 50'000) + " }}"), "50000");
  EXPECT_EQ(outcome("{{ ''" + repeated(" ~ 'ab'", 20'000) + " }}").size(), 40'000u);
  EXPECT_EQ(outcome("{{ 1" + repeated(" and 1", 50'000) + " }}"), "1");
  EXPECT_EQ(outcome("{{ 'x'" + repeated("|trim", 50'000) + " }}"), "x");
  EXPECT_EQ(outcome("{% if 0 %}" + repeated("{% elif 0 %}", 50'000) + "{% else %}e{% endif %}"), "e");
}

TEST(JinjaLimits, BoundsRecursion) {
  EXPECT_EQ(outcome("{% macro x() %}{{ x() }}{% endmacro %}{{ x() }}"), "template_limit");
  EXPECT_EQ(outcome("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}"),
            "template_limit");
  EXPECT_EQ(outcome("{% macro x(n) %}{{ n }}{{ x(n - 1) if n }}{% endmacro %}{{ x(9) }}"), "9876543210");
  EXPECT_EQ(outcome("{% macro x(n) %}{{ x(n - 1) if n else 'end' }}{% endmacro %}{{ x(60) }}"), "end");
  EXPECT_EQ(outcome("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"), "template_limit");
  EXPECT_EQ(outcome("{% macro x() %}{% call x() %}{{ caller }}{% endcall %}{% endmacro %}{{ x() }}"), "template_limit");
  // Forty levels of brackets in each of forty calls.
  const std::string brackets(40, '[');
  const std::string closed(40, ']');
  EXPECT_EQ(
      outcome("{% macro x(n) %}{{ " + brackets + "x(n - 1) if n else 'end'" + closed + " }}{% endmacro %}{{ x(40) }}"),
      "template_limit");
  // A loop's condition that looks ahead in the same loop.
  EXPECT_EQ(outcome("{% set ns = namespace() %}{% for x in range(5000) if ns.l is undefined or ns.l.last %}{% set ns.l "
                    "= loop %}{% endfor %}"),
            "template_limit");
}

TEST(JinjaLimits, BoundsWork) {
  EXPECT_EQ(outcome("{{ range(10 ** 9) }}"), "template_limit");
  EXPECT_EQ(outcome("{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}{% endfor %}{% "
                    "endfor %}{% endfor %}"),
            "template_limit");
  EXPECT_EQ(outcome("{{ 'a' * 10 ** 9 }}"), "template_limit");
  EXPECT_EQ(outcome("{{ 'abc' * (2 ** 62) }}"), "template_limit");
  EXPECT_EQ(outcome("{{ [1] * 10 ** 12 }}"), "template_limit");
  EXPECT_EQ(outcome("{{ [1, 2] * (2 ** 62) }}"), "template_limit");
  const std::string doubling =
      "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}";
  EXPECT_EQ(outcome(doubling), "template_limit");
  EXPECT_EQ(outcome("{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"),
            "template_limit");
  EXPECT_EQ(outcome("{{ 'x'.center(10 ** 12) }}"), "template_limit");
  EXPECT_EQ(outcome("{{ 'x'.zfill(10 ** 12) }}"), "template_limit");
  EXPECT_EQ(outcome("{{ '%*d' % (10 ** 12, 1) }}"), "template_limit");
  EXPECT_EQ(outcome("{{ '%.*f' % (2 ** 30, 1.5) }}"), "template_limit");
  EXPECT_EQ(outcome("{{ '{:2000000000}'.format(1) }}"), "template_limit");
  EXPECT_EQ(outcome("{{ '{:02000000000,}'.format(1) }}"), "template_limit");
  EXPECT_EQ(outcome("{{ ('a' * 3000).replace('a', 'b' * 100000) }}"), "template_limit");
  EXPECT_EQ(outcome("{{ (['x' * 1000000] * 1000)|join }}"), "template_limit");
  EXPECT_EQ(outcome("{{ [1]|tojson(indent=10 ** 12) }}"), "template_limit");
  EXPECT_EQ(outcome("{{ '\t'.expandtabs(10 ** 12) }}"), "template_limit");
  EXPECT_EQ(outcome("{{ ('ab ' * 2000000).split()|length }}"), "template_limit");
  EXPECT_EQ(outcome("{{ [1]|batch(10 ** 12, 0)|list }}"), "template_limit");
  EXPECT_EQ(outcome("{{ [1]|slice(10 ** 12)|list }}"), "template_limit");
  // Exponential in what is printed, compared and hashed.
  const std::string nest =
      "{% set ns = namespace(a=(1,), b=(1,)) %}{% for i in range(60) %}{% set ns.a = (ns.a, ns.a) %}{% set ns.b = "
      "(ns.b, ns.b) %}{% endfor %}";
  EXPECT_EQ(outcome(nest + "{{ ns.a }}"), "template_limit");
  EXPECT_EQ(outcome(nest + "{{ ns.a == ns.b }}"), "template_limit");
  EXPECT_EQ(outcome(nest + "{{ ns.a < ns.b }}"), "template_limit");
  EXPECT_EQ(outcome(nest + "{{ {ns.a: 1} }}"), "template_limit");
  EXPECT_EQ(outcome(nest + "{{ ns.a|tojson }}"), "template_limit");
}

TEST(JinjaLimits, StopsWhenTimeIsUp) {
  RenderOptions options;
  TimePoint now{};
  options.clock = [&now] { return now += std::chrono::milliseconds(60); };
  const auto result = render("{% for a in range(300) %}{% for b in range(300) %}{{ a }}{% endfor %}{% endfor %}",
                             JsonObject{}, options);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::template_limit);
  EXPECT_NE(result.error().message.find("0.25 s"), std::string::npos) << result.error().message;
}

TEST(JinjaLimits, TakesLongListsBuiltOneByOne) {
  const std::string grow =
      "{% set ns = namespace(m=[]) %}{% for x in range(4000) %}{% set ns.m = ns.m + [x] %}{% endfor %}{{ ns.m|length "
      "}}";
  EXPECT_EQ(outcome(grow), "4000");
}

TEST(JinjaLimits, FreesDeepValues) {
  // Built by a template, as deep as the steps allow; and by hand, a million deep.
  const std::string deep =
      "{% set ns = namespace(m=[]) %}{% for x in range(50000) %}{% set ns.m = [ns.m] %}{% endfor %}";
  EXPECT_EQ(outcome(deep + "done"), "done");
  EXPECT_EQ(outcome(deep + "{{ ns.m }}"), "template_limit");
  EXPECT_EQ(outcome(deep + "{{ ns.m == [ns.m] }}"), "template_limit");
  EXPECT_EQ(outcome(deep + "{{ ns.m|tojson }}"), "template_limit");
  Value value = Value::list({});
  for (int i = 0; i < 1'000'000; i++) value = Value::list({std::move(value)});
  EXPECT_EQ(value.items().size(), 1u);
}

TEST(JinjaLimits, FreesCycles) {
  // Leaks show under the address sanitizer.
  EXPECT_EQ(outcome("{% set ns = namespace() %}{% set ns.x = ns %}{% set ns.y = [ns, {'n': ns}] %}ok"), "ok");
  EXPECT_EQ(outcome("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}"), "template_limit");
  EXPECT_EQ(outcome("{% set ns = namespace() %}{% for x in [1, 2] %}{{ loop.changed(loop) }}{% set ns.l = loop %}{% "
                    "endfor %}{{ ns.l.changed(ns.l) }}"),
            "TrueFalseTrue");
  EXPECT_EQ(outcome("{% set ns = namespace() %}{% macro m() %}{{ ns.x }}{% endmacro %}{% set ns.m = m %}ok"), "ok");
}

TEST(JinjaLimits, ComparesAndCutsAtTheEdges) {
  EXPECT_EQ(outcome("{{ [1, 2] == [1] }}{{ [1] == [1, 2] }}{{ {'a': 1} == {} }}{{ [] < [1] }}{{ (1, 2) > (1,) }}"),
            "FalseFalseFalseTrueTrue");
  const std::string big = "9223372036854775807";
  EXPECT_EQ(outcome("{{ 'abc'[::" + big + "] }}{{ 'abc'[::-" + big + "] }}{{ 'abc'[::(-" + big + " - 1)] }}"), "acc");
  EXPECT_EQ(outcome("{{ [1, 2, 3][(-" + big + " - 1):" + big + ":2] }}{{ range(3)[::-" + big + "]|list }}"),
            "[1, 3][2]");
  EXPECT_EQ(outcome("{{ 'abc'[" + big + "] }}{{ 'abc'[-" + big + "] }}{{ [1][-2] is defined }}"), "False");
  EXPECT_EQ(outcome("{{ 'abc'[::0] }}"), "template_runtime");
  EXPECT_EQ(outcome("{{ (-" + big + " - 1) // -1 }}"), "template_runtime");
  EXPECT_EQ(outcome("{{ (-" + big + " - 1) % -1 }}{{ 5 % -3 }}{{ -5 // 3 }}"), "0-1-2");
  EXPECT_EQ(outcome("{{ " + big + " + 1 }}"), "template_runtime");
  EXPECT_EQ(outcome("{{ -(-" + big + " - 1) }}"), "template_runtime");
  EXPECT_EQ(outcome("{{ (-" + big + " - 1)|abs }}"), "template_runtime");
  EXPECT_EQ(outcome("{{ 9223372036854775808 }}"), "template_syntax");
  EXPECT_EQ(outcome("{{ range((-" + big + " - 1), " + big + ", " + big + ")|list|length }}"), "3");
  EXPECT_EQ(outcome("{{ 1e300 * 1e300 }}{{ (1e300 * 1e300)|int(5) }}"), "template_runtime");
}

TEST(JinjaLimits, SearchesRepetitiveTextInLinearTime) {
  // Quadratic search would take hours.
  const JsonObject context = {{"a", JsonValue(std::string(4'000'000, 'a'))},
                              {"b", JsonValue(std::string(2'000'000, 'a') + "b")}};
  EXPECT_EQ(
      outcome("{{ b in a }}{{ a.find(b) }}{{ a.rfind('b' + b[:-1]) }}{{ a.count(b) }}{{ a.replace(b, '')|length }}",
              context),
      "False-1-104000000");
  EXPECT_EQ(
      outcome(
          "{{ a.split(b)|length }}{{ a.rsplit('b' ~ b[:-1], 3)|length }}{{ a.partition(b)[2] }}{{ a.strip(b)|length }}",
          context),
      "110");
}

TEST(JinjaLimits, CollidingKeysTakeNoLongerThanOthers) {
  constexpr size_t kKeys = 10'000;
  const std::vector<std::string> keys = testing::colliding_keys(kKeys);
  JsonObject hostile, ordinary;
  for (size_t i = 0; i < kKeys; i++) {
    hostile.emplace_back(keys[i], JsonValue(1));
    ordinary.emplace_back(fmt::format("{:016}", i), JsonValue(1));
  }
  const auto render_with = [](const JsonObject& members) {
    const JsonValue context = JsonObject{{"d", JsonValue(members)}};
    return testing::cpu_seconds_of([&] { EXPECT_EQ(outcome("{{ d | length }}", context), "10000"); });
  };
  EXPECT_LT(render_with(hostile), 8 * render_with(ordinary));
}

TEST(JinjaLimits, StopsWhenTold) {
  const std::atomic<bool> stop = true;
  RenderOptions options;
  options.control = LoadControl(&stop);
  const auto result = render("{% for i in range(100000) %}{% endfor %}", JsonObject{}, options);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::cancelled);
}

}  // namespace
}  // namespace rocmforge::jinja
