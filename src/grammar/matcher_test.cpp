#include "grammar/matcher.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "grammar/compile.h"
#include "grammar/sampler.h"
#include "support/support.h"

namespace rocmforge::grammar {
namespace {

std::shared_ptr<Constraint> compiled(Notation notation, std::string text) {
  auto made = compile({.notation = notation, .text = std::move(text)});
  EXPECT_TRUE(made.ok()) << made.error().message;
  return made.ok() ? *made : nullptr;
}

bool accepts(const std::shared_ptr<Constraint>& constraint, std::string_view text) {
  Matcher matcher(constraint);
  const auto n = matcher.accept(text);
  EXPECT_TRUE(n.ok());
  return n.ok() && *n == text.size() && matcher.is_end();
}

// Every single byte, pieces of JSON and of UTF-8, doubled texts, and two ends.
std::shared_ptr<const TokenTrie> small_vocabulary() {
  static std::vector<std::string> texts;
  if (texts.empty()) {
    for (int b = 0; b < 256; b++) texts.emplace_back(1, static_cast<char>(b));
    for (const char* more : {"{\"",
                             "\":",
                             "\": ",
                             "\", \"",
                             "\"}",
                             "\"]",
                             "]}",
                             "}}",
                             "[]",
                             "true",
                             "false",
                             "null",
                             "tr",
                             "ue",
                             "12",
                             "0.",
                             "e+",
                             "name",
                             "nam",
                             "me\":",
                             "a",
                             "hello world",
                             " ",
                             "  ",
                             "\n  ",
                             "\\u00",
                             "\\n",
                             "\xc3\xa9",
                             "\xe2\x82",
                             "\xac",
                             "\xf0\x9f\x98\x80x",
                             "abc",
                             "ab",
                             "ba",
                             "aaaa",
                             "aaaaaaaaaaaaaaaa",
                             "((",
                             "))",
                             ")+(",
                             "",
                             ""}) {
      texts.emplace_back(more);
    }
  }
  return std::make_shared<TokenTrie>(
      texts.size(), [](int32_t id) -> std::string_view { return texts[static_cast<size_t>(id)]; },
      std::vector<int32_t>{static_cast<int32_t>(texts.size()) - 1});
}

const std::pair<Notation, const char*> kConstraints[] = {
    {Notation::json_schema,
     R"({"type":"object","properties":{"name":{"type":"string"},"n":{"type":"integer","minimum":-5,"maximum":120},
      "tags":{"type":"array","items":{"enum":["a","b","ab"]},"uniqueItems":true,"maxItems":3}},"required":["name"],"additionalProperties":false})"},
    {Notation::json_object, ""},
    {Notation::json_schema, R"({"type":"string","maxLength":6,"pattern":"^a"})"},
    {Notation::json_schema,
     R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"array","items":{"$ref":"#/$defs/t"},"maxItems":2}}})"},
    {Notation::json_schema,
     R"({"type":"object","minProperties":1,"maxProperties":3,"patternProperties":{"^a":{"type":"boolean"}}})"},
    {Notation::json_schema,
     R"({"type":"array","items":{"type":"integer"},"contains":{"minimum":10},"minContains":2,"maxItems":4})"},
    {Notation::json_schema, R"({"type":"string","minLength":3,"maxLength":40})"},
    {Notation::json_schema,
     R"({"type":"object","properties":{"a":{"anyOf":[{"const":"ab"},{"type":"string","maxLength":4},{"type":"null"}]},"name":{"type":"string","format":"date"},
      "b":{"type":"array","items":{"type":"string"}}},"required":["b"],"additionalProperties":{"type":"number","maximum":12.5}})"},
    {Notation::regex, "(a|b)*abb|[^a-z]{1,4}"},
    {Notation::choice, R"(["yes","no","é€😀"])"},
    {Notation::gbnf,
     "root ::= expr\nexpr ::= expr \"+\" term | term\nterm ::= \"(\" expr \")\" | [0-9]+ | [^\\x00-\\x7f]"},
    {Notation::gbnf, "root ::= \"a\" root \"b\" | \"\" | \"c\" root"},
    {Notation::lark,
     "start: pair (\",\" pair)*\npair: KEY \"=\" VALUE\nKEY: /[a-z]+/\nVALUE: \"true\" | INT\n%import "
     "common.INT\n%import common.WS\n%ignore WS"},
};

TEST(RegexPool, MatchesBeginWithTheirFirstBytes) {
  for (const auto& [notation, text] : kConstraints) {
    Grammar grammar;
    const auto root = add_source(grammar, {.notation = notation, .text = text});
    ASSERT_TRUE(root.ok());
    grammar.set_root(*root);
    ASSERT_TRUE(grammar.finish().ok());
    std::set<Regex> seen;
    for (uint32_t t = 0; t < grammar.n_terminals(); t++) seen.insert(grammar.terminal(t));
    std::vector<Regex> queue(seen.begin(), seen.end());
    size_t n_excluded = 0;
    for (size_t i = 0; i < queue.size() && queue.size() < 2'000; i++) {
      const ByteSet first = grammar.pool.first_bytes(queue[i]);
      for (unsigned b = 0; b < 256; b++) {
        const Regex rest = grammar.pool.derivative(queue[i], static_cast<uint8_t>(b));
        if (rest == kNothing || !grammar.pool.is_alive(rest)) continue;
        ASSERT_TRUE(contains(first, static_cast<uint8_t>(b))) << text << " byte " << b;
        if (seen.insert(rest).second) queue.push_back(rest);
      }
      for (unsigned b = 0; b < 256; b++) n_excluded += !contains(first, static_cast<uint8_t>(b));
    }
    EXPECT_GT(n_excluded, 0u) << text;
  }
}

// The reference follows each token's bytes by themselves, on a constraint that never makes masks.
TEST(Matcher, MaskIsTheSetOfTokensWhoseBytesCanFollow) {
  auto rng = testing::seeded_rng();
  const auto vocabulary = small_vocabulary();
  for (const auto& [notation, text] : kConstraints) {
    const auto constraint = compiled(notation, text), other = compiled(notation, text);
    ASSERT_TRUE(constraint && other);
    for (int walk = 0; walk < 8; walk++) {
      Matcher matcher(constraint, vocabulary), reference(other);
      for (int step = 0; step < 25; step++) {
        const auto mask = *matcher.mask();
        std::vector<int32_t> allowed;
        const size_t here = reference.snapshot();
        for (int32_t id = 0; id < static_cast<int32_t>(vocabulary->n_tokens()); id++) {
          const std::string_view bytes = vocabulary->text(id);
          bool can_follow = reference.is_end();
          if (!vocabulary->is_end_of_text(id)) can_follow = !bytes.empty() && *reference.accept(bytes) == bytes.size();
          if (reference.snapshot() > here) reference.rollback(here);
          ASSERT_EQ(can_follow, mask->contains(id)) << text << " token '" << bytes << "'";
          ASSERT_EQ(can_follow, *matcher.allows(id)) << text << " token '" << bytes << "'";
          if (can_follow && !vocabulary->is_end_of_text(id)) allowed.push_back(id);
        }
        ASSERT_TRUE(!allowed.empty() || matcher.is_end()) << text;
        if (allowed.empty()) break;
        const int32_t next = allowed[rng() % allowed.size()];
        ASSERT_TRUE(matcher.accept(next).ok());
        ASSERT_EQ(*reference.accept(vocabulary->text(next)), vocabulary->text(next).size());
      }
    }
  }
}

TEST(Matcher, RandomWalksReachAnEndThatIsAccepted) {
  for (const auto& [notation, text] : kConstraints) {
    const auto constraint = compiled(notation, text);
    ASSERT_TRUE(constraint);
    for (uint64_t seed = 1; seed <= 15; seed++) {
      const auto sentence = random_sentence(constraint, {.seed = seed, .length = 60});
      ASSERT_TRUE(sentence.ok()) << text << ": " << sentence.error().message;
      EXPECT_TRUE(accepts(constraint, *sentence)) << text << ": " << *sentence;
    }
  }
}

TEST(Matcher, RollbackForgetsWhatCameAfter) {
  const auto vocabulary = small_vocabulary();
  for (const auto& [notation, text] : kConstraints) {
    const auto constraint = compiled(notation, text);
    Matcher matcher(constraint, vocabulary);
    auto rng = testing::seeded_rng();
    for (int step = 0; step < 12 && !matcher.is_complete(); step++) {
      const auto before = matcher.mask();
      const size_t snapshot = matcher.snapshot();
      const auto next = [&]() -> int32_t {
        const auto mask = *matcher.mask();
        std::vector<int32_t> all;
        for (int32_t id = 0; id < static_cast<int32_t>(vocabulary->n_tokens()); id++) {
          if (mask->contains(id) && !vocabulary->is_end_of_text(id)) all.push_back(id);
        }
        return all.empty() ? -1 : all[rng() % all.size()];
      };
      for (int i = 0; i < 3; i++) {
        const int32_t id = next();
        if (id < 0) break;
        ASSERT_TRUE(matcher.accept(id).ok());
      }
      matcher.rollback(snapshot);
      EXPECT_EQ(**matcher.mask(), **before) << text;
      const int32_t id = next();
      if (id < 0) break;
      ASSERT_TRUE(matcher.accept(id).ok());
    }
  }
}

TEST(Matcher, ForcedTextIsWhatEveryContinuationBeginsWith) {
  const auto constraint = compiled(Notation::regex, "ab(cde|cdf)g?|ab(cd)x{3}");
  Matcher matcher(constraint, small_vocabulary());
  EXPECT_EQ(*matcher.forced_text(100), "abcd");
  EXPECT_EQ(*matcher.forced_text(3), "abc");
  EXPECT_EQ(*matcher.accept("abcdx"), 5u);
  EXPECT_EQ(*matcher.forced_text(100), "xx");
  Matcher other(constraint, small_vocabulary());
  EXPECT_EQ(*other.accept("abcde"), 5u);
  EXPECT_EQ(*other.forced_text(100), "") << "the text may end here";
  // A byte of a character is no choice, and asking changes nothing.
  const auto euro = compiled(Notation::choice, R"(["€1","€2"])");
  Matcher third(euro, small_vocabulary());
  EXPECT_EQ(*third.forced_text(100), "\xe2\x82\xac");
  EXPECT_EQ(*third.accept("\xe2\x82\xac"
                          "2"),
            4u);
  EXPECT_TRUE(third.is_complete());
}

TEST(Matcher, LeastCompletionBehindATokenIsThatOfThePlaceBehindIt) {
  auto rng = testing::seeded_rng();
  const auto vocabulary = small_vocabulary();
  for (const auto& [notation, text] : kConstraints) {
    const auto constraint = compiled(notation, text);
    Matcher matcher(constraint, vocabulary);
    for (int step = 0; step < 12 && !matcher.is_complete(); step++) {
      std::vector<int32_t> allowed;
      const auto mask = *matcher.mask();
      for (const int32_t id : mask->ids()) {
        if (!vocabulary->is_end_of_text(id)) allowed.push_back(id);
      }
      if (allowed.empty()) break;
      const int32_t token = allowed[rng() % allowed.size()];
      const uint32_t least = *matcher.least_completion_after(token);
      EXPECT_EQ(**matcher.mask(), *mask);
      ASSERT_TRUE(matcher.accept(token).ok());
      EXPECT_EQ(matcher.least_completion(), least) << text;
    }
  }
}

// An expression whose derivatives never come again.
TEST(ConstraintCache, AWornConstraintIsCompiledAnewAndItsRequestsKeepIt) {
  ConstraintCache cache;
  size_t n_made = 0;
  const auto make = [&]() -> Result<Compiled> {
    n_made++;
    return Compiled{TRY(compile({.notation = Notation::regex, .text = "(a|b)*a(a|b){60}"}))};
  };
  const auto first = cache.get("key", make)->constraint;
  EXPECT_EQ(cache.get("key", make)->constraint, first);
  EXPECT_EQ(n_made, 1u);
  Matcher matcher(first);
  std::mt19937_64 rng(7);
  while (!first->is_worn()) {
    const char byte = rng() % 2 == 0 ? 'a' : 'b';
    ASSERT_EQ(*matcher.accept(std::string_view(&byte, 1)), 1u);
  }
  const auto second = cache.get("key", make)->constraint;
  EXPECT_NE(second, first);
  EXPECT_FALSE(second->is_worn());
  EXPECT_EQ(n_made, 2u);
  EXPECT_EQ(*matcher.accept("a"), 1u);
}

TEST(Compile, EndsInAnErrorWhenItTakesTooLong) {
  std::string schema = R"({"type":"object","properties":{)";
  for (int i = 0; i < 400; i++) {
    schema += (i == 0 ? "\"p" : ",\"p") + std::to_string(i) + R"(":{"type":"string","pattern":"^[a-f]{1,)" +
              std::to_string(i + 2) + R"(}$"})";
  }
  schema += "}}";
  const auto late = compile({.text = schema}, {}, std::chrono::milliseconds(0));
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, ErrorCode::limit_exceeded);
  EXPECT_NE(late.error().message.find("takes longer"), std::string::npos) << late.error().message;
  const auto made = compile({.text = schema});
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_TRUE(accepts(*made, R"({"p0":"ab","p399":"abc"})"));
}

TEST(Compile, WhiteSpaceIsWhatTheSourceSays) {
  const auto with = [](SchemaOptions options) {
    auto made = compile({.text = R"({"type":"array","items":{"type":"integer"}})", .schema = std::move(options)});
    EXPECT_TRUE(made.ok());
    return *made;
  };
  EXPECT_TRUE(accepts(with({}), "[1, 2]"));
  EXPECT_FALSE(accepts(with({}), "[1,  2]"));
  EXPECT_FALSE(accepts(with({.has_white_space = false}), "[1, 2]"));
  EXPECT_TRUE(accepts(with({.has_white_space = false}), "[1,2]"));
  EXPECT_TRUE(accepts(with({.white_space = "[ \\n]{0,3}"}), "[1,   2]"));
  EXPECT_FALSE(accepts(with({.white_space = "[ \\n]{0,3}"}), "[1,    2]"));
  EXPECT_FALSE(accepts(with({.white_space = "x?"}), "[1,x2]")) << "that is no white space";
  EXPECT_FALSE(compile({.text = "{}", .schema = {.white_space = "("}}).ok());
}

TEST(Matcher, SaysWhereATextCannotGoOn) {
  const auto constraint = compiled(Notation::regex, "ab+c");
  Matcher matcher(constraint);
  EXPECT_EQ(*matcher.accept("abbx"), 3u);
  EXPECT_FALSE(matcher.is_end());
  EXPECT_EQ(*matcher.accept("c"), 1u);
  EXPECT_TRUE(matcher.is_complete());
}

TEST(Matcher, CharactersMayBeSplitBetweenTokensAndAreNeverMalformed) {
  const auto constraint = compiled(Notation::regex, "[^a]");
  EXPECT_TRUE(accepts(constraint, "\xe2\x82\xac"));
  EXPECT_FALSE(accepts(constraint, "\xe2\x82"));
  EXPECT_FALSE(accepts(constraint, "\xed\xa0\x80")) << "a surrogate";
  EXPECT_FALSE(accepts(constraint, "\xc0\x80")) << "overlong";
}

TEST(Matcher, AmbiguityAndRecursionOfAnyKindStayFast) {
  const auto ambiguous = compiled(Notation::gbnf, "root ::= root root | \"a\" | \"\"");
  EXPECT_TRUE(accepts(ambiguous, std::string(300, 'a')));
  const auto right = compiled(Notation::gbnf, "root ::= \"a\" root | \"b\"");
  EXPECT_TRUE(accepts(right, std::string(100'000, 'a') + "b"));
  const auto counted = compiled(Notation::gbnf, "root ::= (\"a\" | \"(\" root \")\"){1000,5000}");
  EXPECT_TRUE(accepts(counted, std::string(5000, 'a')));
  EXPECT_FALSE(accepts(counted, std::string(5001, 'a')));
  EXPECT_FALSE(accepts(counted, std::string(999, 'a')));
}

TEST(Matcher, HostileSourcesEndInAnError) {
  EXPECT_FALSE(compile({.notation = Notation::gbnf, .text = "root ::= \"a\" root"}).ok()) << "no sentence ends";
  EXPECT_FALSE(compile({.notation = Notation::gbnf, .text = std::string(2u << 20, '#')}).ok());
  EXPECT_FALSE(compile({.notation = Notation::regex, .text = std::string(5'000, '(') + std::string(5'000, ')')}).ok());
  EXPECT_FALSE(compile({.notation = Notation::gbnf, .text = "root ::= x"}).ok());
  EXPECT_FALSE(compile({.notation = Notation::lark, .text = "start: X\n%declare X"}).ok());
  const auto states = compile({.notation = Notation::regex, .text = "(a|b)*a(a|b){60}"});
  ASSERT_TRUE(states.ok());
  Matcher matcher(*states);
  std::mt19937_64 rng(7);
  std::string text;
  for (int i = 0; i < 200'000; i++) text += rng() % 2 == 0 ? 'a' : 'b';
  const auto n = matcher.accept(text);
  ASSERT_FALSE(n.ok());
  EXPECT_EQ(n.error().code, ErrorCode::limit_exceeded);
}

// As many states as the text has places, and a class for each letter: derivatives, tables and masks grow with every
// byte.
std::string regex_of_many_states(int i) {
  std::string out = "(";
  for (char c = 'a'; c <= 'z'; c++) out += std::string(1, c) + static_cast<char>('a' + (c + 7) % 26) + "|";
  return out + "x)[a-z]*q[a-z]{" + std::to_string(12 + i) + "}";
}

class StateMemoryTest : public ::testing::Test {
 protected:
  ~StateMemoryTest() { StateMemory::limits = {}; }
};

TEST_F(StateMemoryTest, OneObjectAndAllTogetherAreBounded) {
  StateMemory::limits = {.of_one = 4u << 20, .of_all = 6u << 20};
  const uint64_t before = StateMemory::bytes_of_all();
  {
    StateMemory a, b;
    EXPECT_TRUE(a.set(4u << 20));
    EXPECT_FALSE(a.set((4u << 20) + 1));
    EXPECT_FALSE(b.set(3u << 20));
    EXPECT_TRUE(b.set(1u << 20));
    EXPECT_TRUE(a.set(1u << 20));
    EXPECT_TRUE(b.set(3u << 20));
    StateMemory c = std::move(b);
    EXPECT_GE(StateMemory::bytes_of_all(), before + (4u << 20));
  }
  EXPECT_EQ(StateMemory::bytes_of_all(), before);
}

TEST_F(StateMemoryTest, HostileGrammarsStayWithinIt) {
  StateMemory::limits = {.of_one = 1u << 20, .of_all = 3u << 20};
  const uint64_t before = StateMemory::bytes_of_all();
  {
    ConstraintCache cache;
    const auto vocabulary = small_vocabulary();
    std::vector<std::shared_ptr<Constraint>> used;
    std::vector<std::unique_ptr<Matcher>> running;
    std::mt19937 random(1);
    int n_failed = 0;
    for (int i = 0; i < 12; i++) {
      const Source source{.notation = Notation::regex, .text = regex_of_many_states(i)};
      auto made = cache.get(cache_key(source), [&]() -> Result<Compiled> { return Compiled{TRY(compile(source))}; });
      if (!made.ok()) {
        n_failed++;
        continue;
      }
      used.push_back(made->constraint);
      running.push_back(std::make_unique<Matcher>(used.back(), vocabulary));
      for (int k = 0; k < 3000; k++) {
        const char c = random() % 3 == 0 ? 'q' : static_cast<char>('a' + random() % 26);
        const auto accepted = k == 0 ? running.back()->accept("x") : running.back()->accept(std::string_view(&c, 1));
        if (accepted.ok() && running.back()->mask().ok()) continue;
        n_failed++;
        break;
      }
      EXPECT_LE(StateMemory::bytes_of_all(), StateMemory::limits.of_all);
    }
    EXPECT_GE(n_failed, 8) << StateMemory::bytes_of_all();
    // With those gone there is room again, also for a grammar whose tables were full.
    running.clear();
    used.clear();
    const Source source{.notation = Notation::regex, .text = regex_of_many_states(0)};
    auto made = cache.get(cache_key(source), [&]() -> Result<Compiled> { return Compiled{TRY(compile(source))}; });
    ASSERT_TRUE(made.ok());
    EXPECT_TRUE(accepts(made->constraint, "xq" + std::string(12, 'a')));
  }
  EXPECT_EQ(StateMemory::bytes_of_all(), before);
}

TEST(Matcher, TokensOfAGrammarMatchById) {
  const auto vocabulary = std::make_shared<TokenTrie>(
      4, [](int32_t id) -> std::string_view { return id == 0   ? "a"
                                                     : id == 1 ? "b"
                                                               : ""; }, std::vector<int32_t>{3});
  const FindToken find = [](std::string_view name) { return name == "<think>" ? std::optional(2) : std::nullopt; };
  const auto made = compile({.notation = Notation::gbnf, .text = "root ::= <think> \"a\"+ !<[0]>"}, find);
  ASSERT_TRUE(made.ok()) << made.error().message;
  Matcher matcher(*made, vocabulary);
  EXPECT_FALSE(*matcher.allows(0));
  EXPECT_TRUE(*matcher.allows(2));
  ASSERT_TRUE(matcher.accept(2).ok());
  EXPECT_TRUE(*matcher.allows(0));
  EXPECT_FALSE(*matcher.allows(1));
  ASSERT_TRUE(matcher.accept(0).ok());
  EXPECT_TRUE((*matcher.mask())->contains(1));
  EXPECT_FALSE(*matcher.allows(3));
  ASSERT_TRUE(matcher.accept(1).ok());
  EXPECT_TRUE(matcher.is_complete());
}

}  // namespace
}  // namespace rocmforge::grammar
