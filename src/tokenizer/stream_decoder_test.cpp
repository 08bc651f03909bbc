#include "tokenizer/stream_decoder.h"

#include <gtest/gtest.h>

#include "base/utf8.h"
#include "support/support.h"
#include "tokenizer/vocabulary_builder.h"

namespace rocmforge::tokenizer {
namespace {

struct Whole {
  std::string text;
  std::optional<size_t> stopped;
};

// Tokens that spell any bytes: 256 bytes, then a few longer ones.
class Stream : public ::testing::Test {
 protected:
  Stream() {
    VocabularyBuilder v;
    v.add_bytes();
    for (const char* text : {"ab", "abc", "STO", "P", "é", "▁x"}) v.add(text);
    v.add("<|im_end|>", 3).add("<|channel|>", 3);
    auto built = Tokenizer::load(v.finish("llama").build());
    EXPECT_TRUE(built.ok()) << built.error().message;
    tokenizer_.emplace(*std::move(built));
  }

  TokenId named(std::string_view name) const { return *tokenizer_->find(name); }
  static TokenId byte(unsigned char value) { return TokenId(value); }
  static std::vector<TokenId> bytes(std::string_view text) {
    std::vector<TokenId> ids;
    for (const unsigned char c : text) ids.push_back(byte(c));
    return ids;
  }

  // Everything that comes out, with each piece checked.
  Whole run(const std::vector<TokenId>& ids, const StreamOptions& options) const {
    StreamDecoder stream(*tokenizer_, options);
    Whole whole;
    const auto take = [&](const StreamDecoder::Output& out) {
      EXPECT_TRUE(is_valid_utf8(out.text));
      EXPECT_FALSE(whole.stopped && (out.stopped || !out.text.empty())) << "something after the stop";
      whole.text += out.text;
      if (out.stopped) whole.stopped = out.stopped;
    };
    for (const TokenId id : ids) take(stream.push(id));
    take(stream.finish());
    take(stream.finish());
    return whole;
  }

  std::optional<Tokenizer> tokenizer_;
};

TEST_F(Stream, GivesTextAsItArrives) {
  StreamDecoder stream(*tokenizer_);
  EXPECT_EQ(stream.push(named("abc")).text, "abc");
  EXPECT_EQ(stream.push(named("▁x")).text, " x");
  EXPECT_EQ(stream.push(named("<|im_end|>")).text, "");
  EXPECT_EQ(stream.push(named("<|channel|>")).text, "<|channel|>");
  EXPECT_EQ(stream.finish().text, "");
  StreamDecoder shown(*tokenizer_, {.show_special = true});
  EXPECT_EQ(shown.push(named("<|im_end|>")).text, "<|im_end|>");
}

TEST_F(Stream, MarkedTokensStandBetweenBytesThatTextNeverHas) {
  const auto marked = std::make_shared<const std::vector<TokenId>>(std::vector<TokenId>{named("<|im_end|>")});
  StreamDecoder stream(*tokenizer_, {.stop = {"P<"}, .marked = marked});
  EXPECT_EQ(stream.push(byte(0xC3)).text, "");
  EXPECT_EQ(stream.push(named("<|im_end|>")).text, "\uFFFD\xFF<|im_end|>\xFE") << "the character before it is over";
  EXPECT_EQ(stream.push(named("<|channel|>")).text, "<|channel|>") << "not marked";
  EXPECT_EQ(stream.push(named("P")).text, "");
  EXPECT_EQ(stream.push(named("<|im_end|>")).text, "P\xFF<|im_end|>\xFE") << "a stop string has no marks in it";
}

TEST_F(Stream, HoldsTheStartOfACharacter) {
  StreamDecoder stream(*tokenizer_);
  EXPECT_EQ(stream.push(byte(0xF0)).text, "");
  EXPECT_EQ(stream.push(byte(0x9F)).text, "");
  EXPECT_EQ(stream.push(byte(0x98)).text, "");
  EXPECT_EQ(stream.push(byte(0x80)).text, "😀");
  EXPECT_EQ(stream.push(byte(0xC3)).text, "");
  EXPECT_EQ(stream.push(named("ab")).text, "\uFFFDab") << "the character never came";
  EXPECT_EQ(stream.push(byte(0xFF)).text, "\uFFFD");
  EXPECT_EQ(stream.push(byte(0xE4)).text, "");
  EXPECT_EQ(stream.finish().text, "\uFFFD");
}

TEST_F(Stream, StopsAcrossTokensAndLeaksNothing) {
  StreamDecoder stream(*tokenizer_, {.stop = {"STOP"}});
  EXPECT_EQ(stream.push(named("ab")).text, "ab");
  EXPECT_EQ(stream.push(byte('S')).text, "");
  EXPECT_EQ(stream.push(named("STO")).text, "S") << "the first S was none";
  const auto last = stream.push(named("P"));
  EXPECT_EQ(last.text, "");
  EXPECT_EQ(last.stopped, 0u);
  EXPECT_EQ(stream.push(named("ab")).text, "");
  EXPECT_EQ(stream.finish().text, "");
  EXPECT_EQ(run({named("STO")}, {.stop = {"STOP"}}).text, "STO") << "it never came: the text is given";
}

TEST_F(Stream, StopsAtTheFirstToBeCompleted) {
  EXPECT_EQ(run(bytes("xxabcd"), {.stop = {"abcd", "b"}}).text, "xxa");
  EXPECT_EQ(run(bytes("xxabcd"), {.stop = {"abcd", "b"}}).stopped, 1u);
  EXPECT_EQ(run(bytes("xxabc"), {.stop = {"c", "abc", ""}}).text, "xx") << "of two completed at once, the longer";
  EXPECT_EQ(run(bytes("xxabc"), {.stop = {"", ""}}).text, "xxabc");
  EXPECT_EQ(run(bytes("aé中é"), {.stop = {"中"}}).text, "aé");
  EXPECT_EQ(run({byte('a'), byte(0xFF)}, {.stop = {"\xFF"}}).text, "a") << "a stop is text, too: U+FFFD";
}

// The definition: the stop whose end comes first; the longest of those that end there.
Whole stop_by_definition(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); end++) {
    std::optional<size_t> best;
    for (size_t i = 0; i < stops.size(); i++) {
      const bool ends_here = !stops[i].empty() && std::string_view(text).substr(0, end).ends_with(stops[i]);
      if (ends_here && (!best || stops[i].size() > stops[*best].size())) best = i;
    }
    if (best) return {text.substr(0, end - stops[*best].size()), best};
  }
  return {text, std::nullopt};
}

TEST_F(Stream, FollowsTheDefinitionWhateverTheTokens) {
  auto rng = testing::seeded_rng();
  const char* const parts[] = {"a", "b", "ab", "abc", "aab", "é", "\xC3", "\xA9", "\xFF", "😀", "STO", "P"};
  for (int i = 0; i < 5000; i++) {
    std::string text;
    std::vector<TokenId> ids;
    for (uint64_t n = rng() % 20; n > 0; n--) {
      const char* part = parts[rng() % std::size(parts)];
      text += part;
      const auto whole = tokenizer_->find(part);
      for (const TokenId id : whole ? std::vector{*whole} : bytes(part)) ids.push_back(id);
    }
    std::vector<std::string> stops;
    for (uint64_t n = rng() % 4; n > 0; n--) {
      std::string stop;
      for (uint64_t k = rng() % 4; k > 0; k--) stop += parts[rng() % 6];
      stops.push_back(stop);
    }
    const Whole expected = stop_by_definition(to_valid_utf8(text), stops);
    const Whole got = run(ids, {.stop = stops});
    ASSERT_EQ(got.text, expected.text);
    ASSERT_EQ(got.stopped, expected.stopped);
  }
}

}  // namespace
}  // namespace rocmforge::tokenizer
