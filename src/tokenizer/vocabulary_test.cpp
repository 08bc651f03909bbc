#include "tokenizer/vocabulary.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <limits>

#include "base/log.h"
#include "gguf/reader.h"
#include "support/support.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary_builder.h"

namespace rocmforge::tokenizer {
namespace {

Vocabulary loaded(const MetadataBuilder& metadata) {
  auto vocabulary = Vocabulary::load(metadata.build());
  EXPECT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  return vocabulary.ok() ? *std::move(vocabulary) : Vocabulary();
}

// The error, which must say its room and mention `fact`.
void expect_refused(const MetadataBuilder& metadata, ErrorCode code, std::string_view fact) {
  const auto vocabulary = Vocabulary::load(metadata.build());
  ASSERT_FALSE(vocabulary.ok()) << "accepted, though: " << fact;
  EXPECT_EQ(error_name(vocabulary.error().code), error_name(code)) << vocabulary.error().message;
  EXPECT_NE(vocabulary.error().message.find(fact), std::string::npos) << vocabulary.error().message;
}

std::vector<std::string> warnings_of(const MetadataBuilder& metadata) {
  std::vector<std::string> said;
  const LogCapture capture([&](LogLevel, std::string_view text) { said.emplace_back(text); });
  loaded(metadata);
  return said;
}

TEST(Vocabulary, LoadsTheStoryModelsTokens) {
  const auto file = gguf::GgufFile::open(testing::data_path("tokenizer/story-vocab.gguf"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto v = Vocabulary::load(file->metadata());
  ASSERT_TRUE(v.ok()) << v.error().message;
  EXPECT_EQ(v->kind, Kind::spm);
  EXPECT_EQ(v->size(), 4096u);
  EXPECT_EQ(v->text(TokenId(1)), "<s>");
  EXPECT_EQ(v->type(TokenId(1)), TokenType::control);
  EXPECT_EQ(v->special.bos, TokenId(1));
  EXPECT_EQ(v->byte_tokens[0x0A], 13);
  EXPECT_TRUE(v->add_bos);
  EXPECT_TRUE(v->add_space_prefix);
  EXPECT_EQ(v->end_of_text, std::vector<TokenId>{TokenId(2)});
}

TEST(Vocabulary, RefusesKindsItDoesNotKnow) {
  for (const char* model : {"rwkv", "hybriddna", "none", "no_vocab", "", "LLAMA"}) {
    expect_refused(small_spm().finish(model), ErrorCode::tokenizer_kind, "tokenizer.ggml.model");
  }
  expect_refused(small_spm().finish("llama").remove("tokenizer.ggml.model"), ErrorCode::gguf_key_missing, "model");
  expect_refused(small_spm().finish("llama").set_u32("tokenizer.ggml.model", 1), ErrorCode::gguf_key_type, "model");
}

TEST(Vocabulary, RefusesTokensThatAreMissingEmptyOrDouble) {
  expect_refused(small_spm().finish("llama").remove("tokenizer.ggml.tokens"), ErrorCode::gguf_key_missing, "tokens");
  expect_refused(VocabularyBuilder().finish("llama"), ErrorCode::tokenizer_vocabulary, "is empty");
  expect_refused(small_spm().add("hello").finish("llama"), ErrorCode::tokenizer_vocabulary, "both 'hello'");
  expect_refused(small_spm().finish("llama").set_ints("tokenizer.ggml.tokens", {1}), ErrorCode::gguf_key_type,
                 "tokens");
}

TEST(Vocabulary, KeepsEmptyTokensButNeverFindsThem) {
  const Vocabulary v = loaded(small_spm().add("").add("").finish("llama"));
  EXPECT_FALSE(v.find("").has_value());
}

// V4: arrays whose length or element type differ from the tokens'.
TEST(Vocabulary, RefusesScoresAndTypesThatDoNotFitTheTokens) {
  constexpr std::string_view kScores = "tokenizer.ggml.scores", kTypes = "tokenizer.ggml.token_type";
  VocabularyBuilder v = small_spm();
  const MetadataBuilder good = v.finish("llama");
  std::vector<float> scores = v.scores;
  std::vector<int32_t> types = v.types;

  scores.pop_back();
  expect_refused(MetadataBuilder(good).set_floats(kScores, scores), ErrorCode::tokenizer_vocabulary, "scores");
  expect_refused(MetadataBuilder(good).set_strings(kScores, v.tokens), ErrorCode::tokenizer_vocabulary, "scores");
  expect_refused(MetadataBuilder(good).set_ints(kScores, types), ErrorCode::tokenizer_vocabulary, "no array of f32");
  expect_refused(MetadataBuilder(good).remove(kScores), ErrorCode::tokenizer_vocabulary, "is missing");
  scores.push_back(std::numeric_limits<float>::quiet_NaN());
  expect_refused(MetadataBuilder(good).set_floats(kScores, scores), ErrorCode::tokenizer_vocabulary, "not a number");

  expect_refused(MetadataBuilder(good).set_bytes(kTypes, std::vector<uint8_t>(types.size(), 1)),
                 ErrorCode::tokenizer_vocabulary, "no array of i32");
  types.push_back(1);
  expect_refused(MetadataBuilder(good).set_ints(kTypes, types), ErrorCode::tokenizer_vocabulary, "token_type");
  types.pop_back();
  for (const int32_t bad : {-1, 7, 1 << 30}) {
    types.back() = bad;
    expect_refused(MetadataBuilder(good).set_ints(kTypes, types), ErrorCode::tokenizer_vocabulary, "unknown type");
  }
  loaded(MetadataBuilder(good).remove(kTypes));
}

// V3: special ids outside the vocabulary, stated or assumed.
TEST(Vocabulary, RefusesSpecialIdsOutsideTheVocabulary) {
  const VocabularyBuilder tokens = small_spm();
  for (const char* name : {"bos", "eos", "eot", "eom", "unknown", "seperator", "padding", "mask", "fim_pre", "fim_suf",
                           "fim_mid", "fim_pad", "fim_rep", "fim_sep", "prefix", "suffix", "middle"}) {
    const std::string key = std::string("tokenizer.ggml.") + name + "_token_id";
    const auto n = static_cast<int64_t>(tokens.tokens.size());
    for (const int64_t id : {n, int64_t{1} << 31, (int64_t{1} << 32) - 1, int64_t{-1}}) {
      expect_refused(small_spm().finish("llama").set_i64(key, id), ErrorCode::tokenizer_special, key);
    }
    EXPECT_TRUE(Vocabulary::load(small_spm().finish("llama").set_i64(key, n - 1).build()).ok());
  }
  expect_refused(small_spm().finish("llama").set_text("tokenizer.ggml.eos_token_id", "2"), ErrorCode::tokenizer_special,
                 "eos_token_id");
}

TEST(Vocabulary, OfOneTokenHasNoneOfTheUsualSpecialIds) {
  for (const char* model : {"llama", "bert"}) {
    const Vocabulary v = loaded(VocabularyBuilder().add("x").finish(model));
    EXPECT_FALSE(v.special.bos || v.special.eos || v.special.sep || v.special.mask);
    EXPECT_TRUE(v.end_of_text.empty());
  }
}

// V5: byte tokens that a lenient parser reads as another byte, or as none.
TEST(Vocabulary, RefusesByteTokensThatNameNoByte) {
  for (const char* text : {"<0x-1>", "<0xZZ>", "<0x 1>", "<0x+1>", "<0x1>", "<0x123>", "<0X12>", "0x12", "", "<0x12"}) {
    expect_refused(VocabularyBuilder().add(text, 6).finish("llama"), ErrorCode::tokenizer_vocabulary, "byte token 0");
  }
  expect_refused(VocabularyBuilder().add("<0x0a>", 6).add("<0x0A>", 6).finish("llama"), ErrorCode::tokenizer_vocabulary,
                 "both byte 0x0a");
  const Vocabulary v = loaded(VocabularyBuilder().add("<0x0a>", 6).add("<0x0B>", 1).add("\x0C").finish("llama"));
  EXPECT_EQ(v.byte_tokens[0x0A], 0);
  EXPECT_EQ(v.byte_tokens[0x0B], 1);  // by its name
  EXPECT_EQ(v.byte_tokens[0x0C], 2);  // by the byte itself
  EXPECT_EQ(v.byte_tokens[0x0D], -1);
}

// A fuzzer's find: a control token of one character was the fallback for its byte, so that text could write it.
TEST(Vocabulary, TakesNoControlTokenForAByte) {
  const Vocabulary v = loaded(VocabularyBuilder().add(">", 3).add("<0x41>", 3).finish("llama"));
  EXPECT_EQ(v.byte_tokens['>'], -1);
  EXPECT_EQ(v.byte_tokens['A'], -1);
}

// V7: merges that name no token, or are not two.
TEST(Vocabulary, RefusesMergesThatAreNotTwoTokensAndTheirSum) {
  const auto with_merge = [](const std::string& merge) {
    VocabularyBuilder v = small_bpe();
    v.merges.push_back(merge);
    return v.finish("gpt2");
  };
  for (const char* merge : {"", " ", "h", "he ", " h", "he"}) {
    expect_refused(with_merge(merge), ErrorCode::tokenizer_vocabulary, "is not two tokens");
  }
  expect_refused(with_merge("zz h"), ErrorCode::tokenizer_vocabulary, "'zz', which is no token");
  expect_refused(with_merge("h zz"), ErrorCode::tokenizer_vocabulary, "'zz', which is no token");
  expect_refused(with_merge("h z"), ErrorCode::tokenizer_vocabulary, "'hz', which is no token");
  expect_refused(with_merge("h  e"), ErrorCode::tokenizer_vocabulary, "' e', which is no token");
  expect_refused(small_bpe().finish("gpt2").remove("tokenizer.ggml.merges"), ErrorCode::gguf_key_missing, "merges");
  expect_refused(small_bpe().finish("gpt2").set_ints("tokenizer.ggml.merges", {1}), ErrorCode::gguf_key_type, "merges");
}

TEST(Vocabulary, RefusesMoreThanItsLimits) {
  expect_refused(small_spm().add(std::string(1025, 'x'), 3).finish("llama"), ErrorCode::tokenizer_vocabulary,
                 "1025 bytes");
  loaded(small_spm().add(std::string(1024, 'x'), 3).add(std::string(100'000, 'y')).finish("llama"));
  expect_refused(VocabularyBuilder().add(std::string((64u << 20) + 1, 'x')).finish("llama"), ErrorCode::limit_exceeded,
                 "bytes of text");
  // Each is short enough; 60,000 of them made a file load for 10 s.
  VocabularyBuilder many = small_spm();
  for (int i = 0; i < 1100; i++) many.add(std::string(980, '<') + std::to_string(i), 3);
  expect_refused(many.finish("llama"), ErrorCode::limit_exceeded, "bytes of special tokens, 1048576 are allowed");
  constexpr uint64_t kTooMany = (4u << 20) + 1;
  expect_refused(small_bpe().finish("gpt2").set_copies("tokenizer.ggml.merges", "h e", kTooMany),
                 ErrorCode::limit_exceeded, "merges");
  expect_refused(small_bpe().finish("gpt2").set_copies("tokenizer.ggml.tokens", "", kTooMany),
                 ErrorCode::limit_exceeded, "tokens");
}

TEST(Vocabulary, StopsLoadingWhenTold) {
  const std::atomic<bool> stop = true;
  for (const auto& metadata : {small_spm().finish("llama").build(), small_bpe().finish("gpt2").build()}) {
    EXPECT_EQ(Vocabulary::load(metadata, LoadControl(&stop)).error().code, ErrorCode::cancelled);
    EXPECT_EQ(Tokenizer::load(metadata, LoadControl(&stop)).error().code, ErrorCode::cancelled);
    EXPECT_EQ(Tokenizer::build(*Vocabulary::load(metadata), LoadControl(&stop)).error().code, ErrorCode::cancelled);
    const LoadControl late(nullptr, std::chrono::steady_clock::now() - std::chrono::hours(1));
    EXPECT_EQ(Tokenizer::load(metadata, late).error().code, ErrorCode::limit_exceeded);
  }
}

TEST(Vocabulary, WarnsOfPreTokenizersItDoesNotKnow) {
  EXPECT_TRUE(warnings_of(small_bpe().finish("gpt2")).empty());

  auto said = warnings_of(small_bpe().finish("gpt2").set_text("tokenizer.ggml.pre", "from-the-future"));
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("'from-the-future'"), std::string::npos) << said[0];
  EXPECT_NE(said[0].find("'llama-bpe'"), std::string::npos) << said[0];

  said = warnings_of(small_bpe().finish("gpt2").remove("tokenizer.ggml.pre"));
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("'gpt-2'"), std::string::npos) << said[0];

  const LogCapture silent([](LogLevel, std::string_view) {});
  EXPECT_EQ(loaded(small_bpe().finish("gpt2").set_text("tokenizer.ggml.pre", "?")).rules,
            find_pre_tokenizer("llama-bpe"));
  EXPECT_EQ(loaded(small_bpe().finish("gpt2").remove("tokenizer.ggml.pre")).rules, find_pre_tokenizer("gpt-2"));
}

TEST(Vocabulary, TakesWhatTheFileSaysOverWhatTheKindSays) {
  EXPECT_TRUE(loaded(small_spm().finish("llama")).add_bos);
  EXPECT_FALSE(loaded(small_spm().finish("llama").set_bool("tokenizer.ggml.add_bos_token", false)).add_bos);
  EXPECT_FALSE(loaded(small_bpe().finish("gpt2")).add_bos);
  EXPECT_TRUE(loaded(small_bpe().finish("gpt2").set_text("tokenizer.ggml.pre", "llama-bpe")).add_bos);
  // Gemma 4 was trained with BOS; its files say otherwise.
  EXPECT_TRUE(loaded(small_gemma4().finish("gemma4").set_bool("tokenizer.ggml.add_bos_token", false)).add_bos);
  EXPECT_FALSE(loaded(small_spm().finish("llama").set_bool("tokenizer.ggml.add_space_prefix", false)).add_space_prefix);
  expect_refused(small_spm().finish("llama").set_u32("tokenizer.ggml.add_bos_token", 1), ErrorCode::gguf_key_type,
                 "add_bos_token");
}

TEST(Vocabulary, FindsEndsOfTextByName) {
  VocabularyBuilder b = small_bpe();
  b.add("<|eot_id|>", 1).add("<|fim_pad|>", 4).add("<|return|>", 3).add("<|call|>", 3).add("<|end|>", 3);
  b.add("<|channel|>", 3);
  const Vocabulary v = loaded(b.finish("gpt2"));
  const auto id = [&](std::string_view name) { return *v.find(name); };
  const auto ends = [&](std::string_view name) {
    return std::count(v.end_of_text.begin(), v.end_of_text.end(), id(name)) == 1;
  };
  EXPECT_TRUE(ends("<|endoftext|>") && ends("<|im_end|>") && ends("<|eot_id|>") && ends("<|fim_pad|>"));
  EXPECT_TRUE(ends("<|return|>") && ends("<|call|>"));
  EXPECT_FALSE(ends("<|end|>")) << "only separates messages where <|return|> and <|call|> end them";
  EXPECT_FALSE(ends("<|im_start|>"));
  // Whatever type the file gave it.
  EXPECT_EQ(v.type(id("<|eot_id|>")), TokenType::control);
  EXPECT_EQ(v.special.eot, id("<|eot_id|>"));
  EXPECT_EQ(v.always_shown, (std::vector<TokenId>{id("<|end|>"), id("<|channel|>")}));
}

}  // namespace
}  // namespace rocmforge::tokenizer
