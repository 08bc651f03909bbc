#include "tokenizer/plamo2.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <random>

#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary_builder.h"

namespace rocmforge::tokenizer {
namespace {

Tokenizer tokenizer_of(const MetadataBuilder& metadata) {
  auto tokenizer = Tokenizer::load(metadata.build());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return *std::move(tokenizer);
}

std::string spelled(const Tokenizer& t, std::string_view text, const EncodeOptions& options = {}) {
  const auto ids = t.encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.error().message;
  std::string out;
  for (const TokenId id : *ids) out += fmt::format("{}{}", out.empty() ? "" : "|", t.vocabulary().text(id));
  return out;
}

TEST(Plamo2Tokenizer, SpellsWithTheLargestSumOfScores) {
  const Tokenizer t = tokenizer_of(small_plamo2().finish("plamo2"));
  EXPECT_EQ(spelled(t, ""), "");
  EXPECT_EQ(spelled(t, "hello world"), "hello| world") << "spaces are characters, and none is added";
  EXPECT_EQ(spelled(t, "hell world"), "hell| world");
  EXPECT_EQ(spelled(t, "aaa"), "aa|a") << "of ways with one sum, the one whose first token is longest";
  EXPECT_EQ(spelled(t, "中文中"), "中文|中");
  EXPECT_EQ(spelled(t, "  a"), " | |a");
}

TEST(Plamo2Tokenizer, UnknownCharactersBecomeTheirBytes) {
  const Tokenizer t = tokenizer_of(small_plamo2().finish("plamo2"));
  EXPECT_EQ(spelled(t, "文a"), "<0xE6>|<0x96>|<0x87>|a");
  EXPECT_EQ(spelled(t, "z"), "<0x7A>");
  EXPECT_EQ(spelled(t, "e"), "<0x65>") << "a token that costs more than an unknown character";
  EXPECT_EQ(spelled(t, "never"), "<0x6E>|<0x65>|<0x76>|<0x65>|<0x72>") << "no text becomes it";
  EXPECT_EQ(spelled(t, "\xFF"), "<0xEF>|<0xBF>|<0xBD>") << "what is no UTF-8 is U+FFFD";
}

TEST(Plamo2Tokenizer, FindsSpecialTokensAndDecodesWhatItEncoded) {
  const Tokenizer t = tokenizer_of(small_plamo2().finish("plamo2"));
  EXPECT_EQ(spelled(t, "a<|tool|>a"), "a|<|tool|>|a");
  EXPECT_EQ(spelled(t, "<|plamo:eos|>", {.parse_special = true}), "<|plamo:eos|>");
  EXPECT_NE(spelled(t, "<|plamo:eos|>"), "<|plamo:eos|>") << "plain text is never a control token";
  for (const std::string text : {"hello world", " 中文 zz", "a\nb\ta", "\xE2\x96\x81"}) {
    EXPECT_EQ(*t.decode(*t.encode(text)), text);
  }
  EXPECT_EQ(t.vocabulary().special.eos, TokenId(2));
}

TEST(Plamo2Tokenizer, BeginsAsTheFileSays) {
  const Tokenizer with = tokenizer_of(small_plamo2().finish("plamo2").set_bool("tokenizer.ggml.add_bos_token", true));
  EXPECT_EQ(spelled(with, "a", {.add_bos = true}), "<|plamo:bos|>|a");
}

// The largest sum over all ways to spell a text, by recursion; unknown characters are single bytes here.
int64_t best_score(const VocabularyBuilder& v, const std::string& text, size_t at) {
  if (at == text.size()) return 0;
  int64_t best = best_score(v, text, at + 1) - 10'000'000;
  for (size_t i = 260; i < v.tokens.size(); i++) {
    if (text.compare(at, v.tokens[i].size(), v.tokens[i]) != 0) continue;
    best =
        std::max<int64_t>(best, std::llround(double{v.scores[i]} * 1e4) + best_score(v, text, at + v.tokens[i].size()));
  }
  return best;
}

TEST(Plamo2Tokenizer, IsNeverWorseThanAnyOtherSpelling) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; round++) {
    VocabularyBuilder v = bytes_of_plamo2();  // text tokens begin at 260
    for (int i = 0; i < 12; i++) {
      std::string token;
      for (size_t n = 1 + random() % 4; n > 0; n--) token += static_cast<char>('a' + random() % 3);
      if (std::find(v.tokens.begin(), v.tokens.end(), token) != v.tokens.end()) continue;
      v.add(token, 1, -1 - static_cast<float>(random() % 1000) / 10);
    }
    const Tokenizer t = tokenizer_of(v.finish("plamo2"));
    std::string text;
    for (int i = 0; i < 10; i++) text += static_cast<char>('a' + random() % 3);
    const auto ids = t.encode(text);
    ASSERT_TRUE(ids.ok());
    int64_t sum = 0;
    for (const TokenId id : *ids) {
      const auto i = static_cast<size_t>(id.value);
      sum += i < 260 ? -10'000'000 : std::llround(double{v.scores[i]} * 1e4);
    }
    EXPECT_EQ(*t.decode(*ids), text);
    EXPECT_EQ(sum, best_score(v, text, 0)) << text;
  }
}

TEST(Plamo2Tokenizer, RefusesWhatCannotBe) {
  VocabularyBuilder far = small_plamo2();
  far.add("far", 1, 1e9f);
  const auto beyond = Tokenizer::load(far.finish("plamo2").build());
  ASSERT_FALSE(beyond.ok());
  EXPECT_EQ(beyond.error().code, ErrorCode::tokenizer_vocabulary);
  EXPECT_NE(beyond.error().message.find("tokenizer.ggml.scores"), std::string::npos) << beyond.error().message;
  const auto none = Tokenizer::load(small_plamo2().finish("plamo2").remove("tokenizer.ggml.scores").build());
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("tokenizer.ggml.scores"), std::string::npos) << none.error().message;
}

}  // namespace
}  // namespace rocmforge::tokenizer
