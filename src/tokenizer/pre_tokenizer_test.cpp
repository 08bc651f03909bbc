#include "tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "support/support.h"
#include "tokenizer/unicode.h"

namespace rocmforge::tokenizer {
namespace {

std::vector<std::string> split_by(const PreTokenizer& pre, const std::string& text) {
  Matcher matcher;
  std::vector<std::string> words = {text};
  for (size_t step = 0; step < pre.n_steps(); step++) {
    std::vector<std::string> smaller;
    for (const std::string& word : words) {
      std::vector<PreTokenizer::Part> parts;
      EXPECT_TRUE(pre.split(parts, word, step, matcher)) << matcher.error()->message;
      size_t begin = 0;
      for (const PreTokenizer::Part& part : parts) {
        EXPECT_GT(part.end, begin);
        smaller.push_back(word.substr(begin, part.end - begin));
        begin = part.end;
      }
      EXPECT_EQ(begin, word.size());
    }
    words = smaller;
  }
  return words;
}

// The words between bars.
std::string words(std::string_view name, const std::string& text) {
  const auto pre = PreTokenizer::compile(find_pre_tokenizer(name)->steps);
  EXPECT_TRUE(pre.ok()) << pre.error().message;
  std::string out;
  for (const std::string& word : split_by(*pre, text)) out += (out.empty() ? "" : "|") + word;
  return out;
}

TEST(PreTokenizers, HaveDistinctNamesAndPatternsThatCompile) {
  std::set<std::string_view> names;
  for (const NamedRules& named : all_pre_tokenizers()) {
    EXPECT_TRUE(names.insert(named.name).second) << named.name;
    const auto pre = PreTokenizer::compile(named.rules->steps);
    EXPECT_TRUE(pre.ok()) << named.name << ": " << (pre.ok() ? "" : pre.error().message);
    EXPECT_EQ(find_pre_tokenizer(named.name), named.rules);
  }
  EXPECT_EQ(names.size(), 87u);
  EXPECT_EQ(find_pre_tokenizer("no-such-name"), nullptr);
}

TEST(PreTokenizers, CutAsTheirModelsDo) {
  EXPECT_EQ(words("gpt-2", "I'll pay  $1234.50 now\n\n ok"), "I|'ll| pay| | $|1234|.|50| now|\n\n| ok");
  EXPECT_EQ(words("llama-bpe", "I'LL pay  $1234.50 now\n\n ok"), "I|'LL| pay| | $|123|4|.|50| now|\n\n| ok");
  EXPECT_EQ(words("qwen2", "a12 b"), "a|1|2| b");
  EXPECT_EQ(words("gpt-4o", "HelloWORLD it's x/\n"), "Hello|WORLD| it's| x|/\n");
  EXPECT_EQ(words("gpt-4o", "ÄpfelBÄR"), "Äpfel|BÄR") << "case is Unicode's";
  EXPECT_EQ(words("tekken", "it's 12"), "it|'s| |1|2");
  EXPECT_EQ(words("deepseek-coder", "x = 中文y;\n"), "x| =| |中文|y|;|\n");
  EXPECT_EQ(words("deepseek-llm", "end  "), "end|  ");
  EXPECT_EQ(words("starcoder", "ab12 c"), "ab|1|2| c");
  EXPECT_EQ(words("falcon", "12345 (x)"), "123|45| |(|x|)");
  EXPECT_EQ(words("kimi-k2", "中文abc's 1234"), "中文|abc's| |123|4");
  EXPECT_EQ(words("exaone-moe", "a b c1"), "a b c|1");
  EXPECT_EQ(words("superbpe", "pi 1234567 x"), "pi |1|234|567| x");
  EXPECT_EQ(words("tiny_aya", "1234567 12345x"), "1|234|567| |123|45|x");
  EXPECT_EQ(words("jais-2", "a" + std::string(7, ' ') + "b"), "a|    |  | b");
  EXPECT_EQ(words("gemma4", "a b\n\n\nc"), "a b|\n\n\n|c");
  EXPECT_EQ(words("chameleon", "<sentinel:3>IMGIMGABZ x"), "<|sentinel|:|3|>|IMGIMGABZ| x");
  // U+180E was a space once, and is one to PCRE2.
  EXPECT_EQ(words("gpt-2", "a \u180Eb"), "a| \u180E|b");
}

// What the step stands for, as the pattern that would take quadratic time. (This PCRE2 counts no marks as parts of
// words; Unicode and the step do.)
TEST(PreTokenizers, GroupDigitsAsTheLookaheadWould) {
  const SplitStep lookahead[] = {{R"re(\d{1,3}(?=(?:\d{3})*\b))re"}};
  const SplitStep groups[] = {{"", SplitStep::Kind::digit_groups_at_word_end}};
  const auto slow = PreTokenizer::compile(lookahead);
  const auto fast = PreTokenizer::compile(groups);
  ASSERT_TRUE(slow.ok() && fast.ok());
  auto rng = testing::seeded_rng();
  const char* const parts[] = {"1", "2", "345", "\u0663", "x", "_", " ", ".", "é", "中"};
  for (int i = 0; i < 5000; i++) {
    std::string text;
    for (uint64_t n = 1 + rng() % 14; n > 0; n--) text += parts[rng() % std::size(parts)];
    ASSERT_EQ(split_by(*fast, text), split_by(*slow, text)) << text;
  }
}

TEST(PreTokenizers, FailWithAnErrorAtTheirLimit) {
  const auto pre = PreTokenizer::compile(find_pre_tokenizer("gpt-4o")->steps);
  ASSERT_TRUE(pre.ok());
  const std::string one_word(24'000'000, 'A');
  Matcher matcher;
  std::vector<PreTokenizer::Part> parts;
  ASSERT_FALSE(pre->split(parts, one_word, 0, matcher));
  EXPECT_EQ(matcher.error()->code, ErrorCode::tokenizer_pattern);
  EXPECT_NE(matcher.error()->message.find("limit"), std::string::npos) << matcher.error()->message;
}

TEST(PreTokenizers, RefuseAPatternThatDoesNotCompile) {
  const SplitStep bad[] = {{"(unclosed"}};
  const auto pre = PreTokenizer::compile(bad);
  ASSERT_FALSE(pre.ok());
  EXPECT_EQ(pre.error().code, ErrorCode::tokenizer_pattern);
}

TEST(Unicode, KnowsItsSpaces) {
  std::set<char32_t> spaces;
  for (char32_t c = 0; c <= 0x10FFFF; c++) {
    if (is_white_space(c)) spaces.insert(c);
  }
  EXPECT_EQ(spaces, (std::set<char32_t>{0x09,   0x0A,   0x0B,   0x0C,   0x0D,   0x20,   0x85,   0xA0,   0x1680,
                                        0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008,
                                        0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}));
}

}  // namespace
}  // namespace rocmforge::tokenizer
