#include "tokenizer/ugm.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <random>

#include "support/support.h"
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

TEST(UgmTokenizer, SpellsWithTheLargestSumOfScores) {
  const Tokenizer t = tokenizer_of(small_ugm().finish("t5"));
  EXPECT_EQ(spelled(t, ""), "");
  EXPECT_EQ(spelled(t, "hello"), "▁hello");
  EXPECT_EQ(spelled(t, "hell"), "▁hell");
  EXPECT_EQ(spelled(t, "hello world"), "▁hello|▁world") << "-4 is more than -6.5 of two";
  EXPECT_EQ(spelled(t, "wors"), "▁wor|s");
  EXPECT_EQ(spelled(t, "aaa"), "▁|a|aa") << "of two ways with one sum, the one whose last token begins first";
}

TEST(UgmTokenizer, JoinsUnknownCharacters) {
  const Tokenizer t = tokenizer_of(small_ugm().finish("t5"));
  EXPECT_EQ(spelled(t, "中文hello中"), "▁|<unk>|h|e|l|l|o|<unk>");
  EXPECT_EQ(spelled(t, "xyz a"), "▁|<unk>|▁|a");
  EXPECT_EQ(spelled(t, "a\xFF\xC3"), "▁|a|<unk>") << "what is no UTF-8 is U+FFFD";
}

TEST(UgmTokenizer, NormalisesByTheTable) {
  const Tokenizer t = tokenizer_of(small_ugm().finish("t5"));
  EXPECT_EQ(spelled(t, "AA"), "▁|aa");
  EXPECT_EQ(spelled(t, "①"), "▁|1");
  EXPECT_EQ(spelled(t, "hello\t \tworld"), "▁hello|▁world");
}

TEST(UgmTokenizer, MergesSpacesWhereTheModelDoes) {
  const Tokenizer merges = tokenizer_of(small_ugm().finish("t5"));
  EXPECT_EQ(spelled(merges, "  hello   world  "), "▁hello|▁world");
  const Tokenizer keeps =
      tokenizer_of(small_ugm().finish("t5").set_bool("tokenizer.ggml.remove_extra_whitespaces", false));
  EXPECT_EQ(spelled(keeps, "hello  world "), "▁hello|▁|▁world|▁");
  const Tokenizer bare = tokenizer_of(small_ugm()
                                          .finish("t5")
                                          .set_bool("tokenizer.ggml.remove_extra_whitespaces", false)
                                          .set_bool("tokenizer.ggml.add_space_prefix", false));
  EXPECT_EQ(spelled(bare, "hello"), "h|e|l|l|o");
}

TEST(UgmTokenizer, FindsUserDefinedTokensAndEndsAsTheModelWants) {
  const Tokenizer t = tokenizer_of(small_ugm().finish("t5"));
  EXPECT_EQ(spelled(t, "a<extra>a"), "▁|a|<extra>|▁|a");
  EXPECT_EQ(spelled(t, "hello", {.add_bos = true, .add_eos = true}), "▁hello|</s>");
  EXPECT_EQ(spelled(t, "</s>"), "▁|<unk>|s|<unk>") << "plain text is never a control token";
  EXPECT_EQ(*t.decode(*t.encode("hello world")), "hello world");
}

// The best sum over all ways to spell a word, by recursion.
double best_score(const VocabularyBuilder& v, const std::string& text, size_t at) {
  if (at == text.size()) return 0;
  double best = -1e30;
  for (size_t i = 4; i < v.tokens.size(); i++) {
    if (v.tokens[i].empty() || text.compare(at, v.tokens[i].size(), v.tokens[i]) != 0) continue;
    best = std::max(best, static_cast<double>(v.scores[i]) + best_score(v, text, at + v.tokens[i].size()));
  }
  return best;
}

TEST(UgmTokenizer, IsNeverWorseThanAnyOtherSpelling) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; round++) {
    VocabularyBuilder v;
    v.add("<pad>", 3).add("</s>", 3).add("<unk>", 2).add("<s>", 3);
    for (const char* one : {"a", "b", "c"}) v.add(one, 1, -1 - static_cast<float>(random() % 100) / 10);
    for (int i = 0; i < 12; i++) {
      std::string token;
      for (size_t n = 2 + random() % 3; n > 0; n--) token += static_cast<char>('a' + random() % 3);
      if (std::find(v.tokens.begin(), v.tokens.end(), token) != v.tokens.end()) continue;
      v.add(token, 1, -1 - static_cast<float>(random() % 100) / 10);
    }
    const Tokenizer t = tokenizer_of(v.finish("t5"));
    std::string text;
    for (int i = 0; i < 12; i++) text += static_cast<char>('a' + random() % 3);
    const auto ids = t.encode(text);
    ASSERT_TRUE(ids.ok());
    double sum = 0;
    std::string joined;
    for (const TokenId id : *ids) {
      sum += static_cast<double>(v.scores[static_cast<size_t>(id.value)]);
      joined += v.tokens[static_cast<size_t>(id.value)];
    }
    EXPECT_EQ(joined, text);
    EXPECT_NEAR(sum, best_score(v, text, 0), 1e-9) << text;
  }
}

TEST(UgmTokenizer, TakesAnyTable) {
  const auto load = [](const std::vector<uint8_t>& charsmap) {
    return Tokenizer::load(small_ugm().finish("t5").set_bytes("tokenizer.ggml.precompiled_charsmap", charsmap).build());
  };
  // Every cut and every flipped byte: an error that names the key, or a tokenizer that ends.
  const std::vector<uint8_t> good = small_charsmap();
  const std::string text = "A\t\xE2\x91\xA0 hello AAAA";
  for (size_t n = 1; n < good.size(); n += n < 16 ? 1 : 97) {
    const auto cut = load({good.begin(), good.begin() + static_cast<ptrdiff_t>(n)});
    if (!cut.ok()) {
      EXPECT_NE(cut.error().message.find("precompiled_charsmap"), std::string::npos) << cut.error().message;
    }
  }
  std::mt19937 random(11);
  for (int round = 0; round < 300; round++) {
    std::vector<uint8_t> bad = good;
    for (int i = 0; i < 1 + round % 40; i++) bad[random() % bad.size()] = static_cast<uint8_t>(random());
    const auto t = load(bad);
    if (t.ok()) {
      EXPECT_TRUE(t->encode(text).ok());
    }
  }
  // A table that leads round and round, and replacements that never end.
  std::vector<uint8_t> loop(4 + 1024, 0);
  loop[1] = 4;
  for (size_t i = 0; i < 256; i++) loop[4 + 4 * i] = static_cast<uint8_t>(i);
  const auto round = load(loop);
  ASSERT_TRUE(round.ok()) << round.error().message;
  EXPECT_TRUE(round->encode(std::string(100'000, 'a')).ok());
  std::vector<uint8_t> endless = good;
  endless.pop_back();
  EXPECT_FALSE(load(endless).ok());
  endless.resize(endless.size() + 300, 'x');
  endless.push_back(0);
  EXPECT_FALSE(load(endless).ok()) << "longer than any replacement";
}

TEST(UgmTokenizer, RefusesWhatItCannotSpellWith) {
  const auto refusal = [](VocabularyBuilder v) {
    const auto t = Tokenizer::load(v.finish("t5").build());
    return t.ok() ? "" : t.error().message;
  };
  VocabularyBuilder infinite = small_ugm();
  infinite.scores[5] = -std::numeric_limits<float>::infinity();
  EXPECT_NE(refusal(infinite).find("not finite"), std::string::npos);
  VocabularyBuilder longest = small_ugm();
  longest.add(std::string(2000, 'a'));
  EXPECT_NE(refusal(longest).find("2000 bytes"), std::string::npos);
  const auto text = Tokenizer::load(small_ugm().finish("t5").set_u32("tokenizer.ggml.precompiled_charsmap", 1).build());
  ASSERT_FALSE(text.ok());
  EXPECT_NE(text.error().message.find("no array of bytes"), std::string::npos);
}

}  // namespace
}  // namespace rocmforge::tokenizer
