#include <gtest/gtest.h>

#include "grammar/compile.h"
#include "grammar/matcher.h"

namespace rocmforge::grammar {
namespace {

void expect_language(Notation notation, const std::string& source, std::initializer_list<std::string_view> in,
                     std::initializer_list<std::string_view> out) {
  const auto made = compile({.notation = notation, .text = source});
  ASSERT_TRUE(made.ok()) << source << ": " << made.error().message;
  const auto accepts = [&](std::string_view text) {
    Matcher matcher(*made);
    const auto n = matcher.accept(text);
    return n.ok() && *n == text.size() && matcher.is_end();
  };
  for (const std::string_view text : in) EXPECT_TRUE(accepts(text)) << source << ": " << text;
  for (const std::string_view text : out) EXPECT_FALSE(accepts(text)) << source << ": " << text;
}

void expect_refused(Notation notation, const std::string& source, std::string_view naming) {
  const auto made = compile({.notation = notation, .text = source});
  ASSERT_FALSE(made.ok()) << source;
  EXPECT_NE(made.error().message.find(naming), std::string::npos) << made.error().message;
}

TEST(RegexFrontEnd, MatchesWholeTexts) {
  expect_language(Notation::regex, "a{2,3}", {"aa", "aaa"}, {"a", "aaaa", ""});
  expect_language(Notation::regex, "^(foo|ba[rz])$", {"foo", "bar", "baz"}, {"fo", "foobar"});
  expect_language(Notation::regex, "\\d+\\.\\d{2}", {"1.00", "23.45"}, {"1.0", ".00"});
  expect_language(Notation::regex, "(?=.*\\d)(?=.*[a-z]).{3,5}", {"a1x", "12b4"}, {"abc", "123", "a1", "a12345"});
  expect_language(Notation::regex, "(?!foo)[a-z]+", {"bar", "fo"}, {"foo", "foobar"});
  expect_language(Notation::regex, "[^\\n]*", {"", "é😀"}, {"a\nb"});
  expect_language(Notation::regex, "\\p{Lu}\\p{Ll}*", {"A", "Éa"}, {"a", "1"});
  expect_language(Notation::regex, "x{,2}", {"x{,2}"}, {"x", ""});
  expect_language(Notation::regex, "\\u{1F600}|\\uD83D\\uDE01", {"😀", "😁"}, {"a"});
  expect_refused(Notation::regex, "(a)\\1", "back references");
  expect_refused(Notation::regex, "\\bword", "word boundaries");
  expect_refused(Notation::regex, "(?<=a)b", "look-behinds");
  expect_refused(Notation::regex, "a**", "nothing to repeat");
  expect_refused(Notation::regex, "[b-a]", "from more to less");
}

TEST(GbnfFrontEnd, ReadsTheWholeNotation) {
  expect_language(Notation::gbnf, "root ::= \"a\" [b-d] . # comment\n", {"abx", "ad\n"}, {"ab", "aex"});
  expect_language(Notation::gbnf, "root ::= (\"x\" | \"y\"){2} z?\nz ::= [^x]", {"xy", "yyz"}, {"x", "xyx", "xyy1"});
  expect_language(Notation::gbnf, "root ::= \"\\x41\\u00e9\\U0001F600\\n\\\"\"", {"A\xc3\xa9\xf0\x9f\x98\x80\n\""},
                  {"A"});
  expect_language(Notation::gbnf, "root ::=\n  \"a\" |\n  \"b\" (\n \"c\"\n )\nx ::= \"d\"", {"a", "bc"}, {"b", "d"});
  expect_language(Notation::gbnf, "root ::= item{2,} end\nitem ::= \"(\" item* \")\"\nend ::= \".\"",
                  {"()().", "(()())()."}, {"().", "(()"});
  expect_language(Notation::gbnf, "root ::= list\nlist ::= list \",\" \"x\" | \"x\"", {"x", "x,x,x"}, {"x,", ""});
  expect_refused(Notation::gbnf, "root ::= (\"a\"", "line 1");
  expect_refused(Notation::gbnf, "a ::= \"b\"", "root");
  expect_refused(Notation::gbnf, "root ::= !<x>", "model");
}

TEST(LarkFrontEnd, ReadsItsSubset) {
  expect_language(
      Notation::lark,
      "?start: sum\n?sum: product | sum \"+\" product -> add\n?product: atom | product \"*\" atom\n"
      "?atom: NUMBER -> number | \"(\" sum \")\"\n%import common.NUMBER\n%import common.WS_INLINE\n%ignore WS_INLINE\n",
      {"1+2*3", "( 1 + 2.5 ) * 3 "}, {"1+", "(1"});
  expect_language(Notation::lark, "start: \"Hello\"i NAME~2..3 [\"!\"]\nNAME.2: /[A-Z][a-z]*/\n",
                  {"hELLOAbC!", "HELLOABC"}, {"HelloA"});
  expect_language(Notation::lark, "start: \"a\"..\"c\"+ // comment\n", {"abc"}, {"abd"});
  expect_refused(Notation::lark, "start: x{a}", "templates");
  expect_refused(Notation::lark, "%import python.name\nstart: \"a\"", "common");
}

TEST(ChoiceFrontEnd, IsOneOfTheTexts) {
  expect_language(Notation::choice, R"(["a","ab","c\"d"])", {"a", "ab", "c\"d"}, {"", "abc", "c"});
  expect_refused(Notation::choice, "[]", "array");
  expect_refused(Notation::choice, "[1]", "strings");
}

TEST(SchemaFrontEnd, RefusesByKeywordAndPointer) {
  expect_refused(Notation::json_schema, R"({"properties":{"a":{"unevaluatedProperties":false}}})",
                 "'unevaluatedProperties' at '/properties/a/unevaluatedProperties'");
  expect_refused(Notation::json_schema, R"({"items":{"pattern":"(a)\\1"}})", "'pattern' at '/items/pattern'");
  expect_refused(Notation::json_schema, R"({"$ref":"http://example.com/x"})", "'$ref' at '/$ref'");
  expect_refused(Notation::json_schema, R"({"type":"array","items":{"type":"string"},"uniqueItems":true})",
                 "'uniqueItems'");
  expect_refused(Notation::json_schema, R"({"not":{"additionalProperties":false}})", "'additionalProperties'");
  expect_refused(Notation::json_schema, R"({"$ref":"#"})", "64 levels");
  expect_refused(Notation::json_schema, R"({"type":"string","enum":[1]})", "no text matches");
  expect_refused(Notation::json_schema, R"({"type":"object","required":["a"],"properties":{"a":{"$ref":"#"}}})",
                 "no text matches");
}

// Found by the fuzzer: it ended the process.
TEST(SchemaFrontEnd, AValueThatIsNoSchemaIsRefused) {
  for (const char* value : {"995", "null", "\"text\"", "[]", "1.5"}) {
    expect_refused(Notation::json_schema, value, "neither an object");
  }
}

// Whether the alternatives of oneOf overlap depends on their required keys, whose schemas are the oneOf again. The
// question had no end and the process overflowed its stack.
TEST(SchemaFrontEnd, AlternativesThatRequireTheirOwnSchemaAreRefusedWhereTheyMayOverlap) {
  expect_refused(
      Notation::json_schema,
      R"({"oneOf":[{"type":"object","required":["a"],"additionalProperties":false,"properties":{"a":{"$ref":"#"}}},
                     {"type":"object","required":["a"],"additionalProperties":false,"properties":{"a":{"type":"null"}}}]})",
      "'oneOf' at '/oneOf'");
  expect_language(
      Notation::json_schema,
      R"({"oneOf":[{"type":"object","required":["a"],"additionalProperties":false,"properties":{"a":{"$ref":"#"}}},
                      {"type":"object","required":["b"],"additionalProperties":false,"properties":{"b":{"type":"null"}}}]})",
      {R"({"b":null})", R"({"a":{"a":{"b":null}}})"}, {R"({"a":1})", R"({"a":{"b":null},"b":null})"});
}

// Each question about a required key leads to the next schema of a chain.
TEST(SchemaFrontEnd, ALongChainOfAlternativesEnds) {
  std::string text = R"({"$ref":"#/$defs/s0","$defs":{)";
  constexpr int kLength = 4'000;
  for (int i = 0; i < kLength; i++) {
    const std::string next = i + 1 < kLength ? "{\"$ref\":\"#/$defs/s" + std::to_string(i + 1) + "\"}" : "{}";
    text += (i > 0 ? ",\"s" : "\"s") + std::to_string(i) + R"(":{"oneOf":[{"type":"object","required":["a"],)" +
            R"("properties":{"a":)" + next + R"(}},{"type":"object","required":["a"],"properties":{"a":)" + next +
            R"(,"b":{"type":"null"}}}]})";
  }
  const auto made = compile({.notation = Notation::json_schema, .text = text + "}}"});
  ASSERT_FALSE(made.ok());
}

// An undeclared key may be written twice, so a count of keys proves nothing beyond the first of them.
TEST(SchemaFrontEnd, AKeyWrittenTwiceDoesNotMeetMinProperties) {
  expect_refused(Notation::json_schema, R"({"type":"object","minProperties":2})",
                 "'minProperties' at '/minProperties'");
  expect_refused(Notation::json_schema, R"({"type":"object","minProperties":2,"patternProperties":{"^a":{}}})",
                 "'minProperties'");
  expect_language(Notation::json_schema, R"({"type":"object","minProperties":2,"required":["a"]})",
                  {R"({"a":1,"b":2})"}, {R"({"a":1})", R"({"a":1,"a":2})"});
}

TEST(SchemaFrontEnd, KeepsTheSchemasOrderWhenAsked) {
  const std::string schema =
      R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"required":["b"],"additionalProperties":false})";
  const auto made = compile({.text = schema, .schema = {.any_order = false}});
  ASSERT_TRUE(made.ok());
  const auto accepts = [&](std::string_view text) {
    Matcher matcher(*made);
    return *matcher.accept(text) == text.size() && matcher.is_end();
  };
  EXPECT_TRUE(accepts(R"({"a":1,"b":2,"c":3})"));
  EXPECT_TRUE(accepts(R"({"b": 2})"));
  EXPECT_FALSE(accepts(R"({"b":2,"a":1})"));
  EXPECT_FALSE(accepts(R"({"a":1,"c":3})"));
  expect_language(Notation::json_schema, schema, {R"({"c":1,"b":2})", R"({"b":1,"a":{"x":[1.5e3,null]}})"},
                  {R"({"c":1})", R"({"b":1,"b":2})", R"({"b":1,})", R"({"b":1}x)", R"( {"b":1})"});
}

TEST(SchemaFrontEnd, BoundsWhiteSpace) {
  const std::string schema = R"({"type":"array"})";
  expect_language(Notation::json_schema, schema, {"[\n                                1, 2\n]", "[ 1 ]"},
                  {"[  1]", "[\n                                 1]", "[1]\n", "[\n\n1]"});
}

TEST(SchemaFrontEnd, NumbersAreHeldToTheirBounds) {
  expect_language(Notation::json_schema, R"({"type":"number","minimum":-1.5,"exclusiveMaximum":20})",
                  {"-1.5", "-1.50", "0", "19.999", "-0"}, {"-1.51", "20", "20.0", "-2", "100"});
  expect_language(Notation::json_schema, R"({"type":"integer","exclusiveMinimum":0,"maximum":1000,"multipleOf":7})",
                  {"7", "994", "14.0"}, {"0", "1001", "8", "-7"});
  expect_language(Notation::json_schema, R"({"multipleOf":0.01})", {"1.25", "3", "-0.10"}, {"1.255", "0.001"});
}

// Codex's format of patches, inside of a JSON string.
TEST(SchemaFrontEnd, AStringMayHaveALarkGrammar) {
  const std::string patch =
      R"(start: begin_patch hunk+ end_patch\nbegin_patch: \"*** Begin Patch\" LF\nend_patch: \"*** End Patch\" LF?\n)"
      R"(hunk: add_hunk | delete_hunk\nadd_hunk: \"*** Add File: \" filename LF add_line+\n)"
      R"(delete_hunk: \"*** Delete File: \" filename LF\nfilename: /(.+)/\nadd_line: \"+\" /(.*)/ LF -> line\n)"
      R"(%import common.LF\n)";
  expect_language(Notation::json_schema, R"({"type":"string","x-lark":")" + patch + R"("})",
                  {R"("*** Begin Patch\n*** Delete File: a\"b.txt\n*** End Patch\n")",
                   R"("*** Begin Patch\n*** Add File: é\n+\n+a\\b\u000a*** Delete File: c\n*** End Patch")"},
                  {R"("*** Begin Patch\n*** End Patch")", R"("*** Begin Patch\n*** Add File: a\n*** End Patch")",
                   R"("*** Begin Patch\n*** Delete File: a\n*** End Patch\n\n")", R"("")", R"("patch")"});
  expect_language(Notation::json_schema, R"({"type":"string","maxLength":2,"x-lark":"start: A+\nA: \"a\"\n"})",
                  {R"("a")", R"("aa")"}, {R"("aaa")", R"("b")"});
  expect_refused(Notation::json_schema, R"({"type":"string","x-lark":"start: \"(\" start? \")\""})", "part of itself");
  expect_refused(Notation::json_schema, R"({"type":"string","x-lark":"start: x"})", "'x-lark' at '/x-lark'");
}

TEST(SchemaFrontEnd, StringsCountCharactersNotBytesOrEscapes) {
  expect_language(Notation::json_schema, R"({"type":"string","minLength":2,"maxLength":3})",
                  {R"("é€")", R"("\u00e9\n😀")", R"("\ud83d\ude00a")"},
                  {R"("a")", R"("abcd")", R"("\ud83da")", "\"a\nb\""});
  expect_language(Notation::json_schema, R"({"type":"string","pattern":"^\\d+$","maxLength":3})",
                  {R"("12")", R"("\u0031")"}, {R"("1234")", R"("a")", R"("")"});
}

}  // namespace
}  // namespace rocmforge::grammar
