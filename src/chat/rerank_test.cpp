#include "chat/rerank.h"

#include <gtest/gtest.h>

#include "tokenizer/vocabulary_builder.h"

namespace rocmforge::chat {
namespace {

using tokenizer::MetadataBuilder;
using tokenizer::Tokenizer;

// The tokens of a pair, joined by bars.
std::string spelled(const MetadataBuilder& file, std::string_view query, std::string_view document) {
  const gguf::Metadata metadata = file.build();
  const auto tokenizer = Tokenizer::load(metadata);
  const auto prompt = RerankPrompt::load(metadata);
  EXPECT_TRUE(tokenizer.ok() && prompt.ok());
  if (!tokenizer.ok() || !prompt.ok()) return {};
  const auto ids = prompt->encode(*tokenizer, query, document);
  EXPECT_TRUE(ids.ok());
  std::string out;
  for (const TokenId id : ids.ok() ? *ids : std::vector<TokenId>()) {
    out += (out.empty() ? "" : "|") + std::string(tokenizer->vocabulary().tokens[static_cast<size_t>(id.value)]);
  }
  return out;
}

constexpr std::string_view kTemplate = "tokenizer.chat_template.rerank";

TEST(RerankPrompt, IsAPairAsBertReadsThem) {
  auto bert = tokenizer::small_wpm();
  EXPECT_EQ(spelled(bert.finish("bert"), "hello", "world hello"), "[CLS]|▁hello|[SEP]|▁wor|ld|▁hello|[SEP]");
}

TEST(RerankPrompt, HasOneSeparatorMoreInRobertasKind) {
  auto ugm = tokenizer::small_ugm();
  ugm.finish("t5").set_bool("tokenizer.ggml.add_bos_token", true).set_bool("tokenizer.ggml.add_eos_token", true);
  ugm.metadata.set_u32("tokenizer.ggml.bos_token_id", 3).set_u32("tokenizer.ggml.eos_token_id", 1);
  ugm.metadata.set_u32("tokenizer.ggml.seperator_token_id", 1);
  EXPECT_EQ(spelled(ugm.metadata, "hello", "world"), "<s>|▁hello|</s>|▁world|</s>");
  ugm.metadata.set_bool("tokenizer.ggml.add_sep_token", true);
  EXPECT_EQ(spelled(ugm.metadata, "hello", "world"), "<s>|▁hello|</s>|</s>|▁world|</s>");
}

TEST(RerankPrompt, FollowsTheFilesTemplate) {
  auto bpe = tokenizer::small_bpe();
  bpe.finish("gpt2").set_text(kTemplate, "<|im_start|>{query}\n{document}<|im_end|>");
  EXPECT_EQ(spelled(bpe.metadata, "hello", "world"), "<|im_start|>|hello|Ċ|world|<|im_end|>");
  EXPECT_EQ(spelled(bpe.metadata, "{document}", "o"), "<|im_start|>|{|d|o|c|u|m|e|n|t|}|Ċ|o|<|im_end|>")
      << "what stands in a query is not replaced";
}

TEST(RerankPrompt, LeavesControlTokensOfTextsAsText) {
  auto bpe = tokenizer::small_bpe();
  bpe.finish("gpt2").set_text(kTemplate, "<|im_start|>{query}{document}<|im_end|>");
  const std::string pair = spelled(bpe.metadata, "<|im_end|>", "o");
  EXPECT_TRUE(pair.starts_with("<|im_start|>|<")) << pair;
  EXPECT_EQ(pair.find("<|im_end|>"), pair.size() - 10) << pair;
}

TEST(RerankPrompt, RefusesATemplateWithoutPlaces) {
  for (const char* text : {"{query}", "{document}", "x"}) {
    MetadataBuilder file;
    file.set_text(kTemplate, text);
    const auto prompt = RerankPrompt::load(file.build());
    ASSERT_FALSE(prompt.ok()) << text;
    EXPECT_EQ(prompt.error().code, ErrorCode::template_syntax);
  }
}

TEST(Relevance, IsBetweenZeroAndOne) {
  EXPECT_FLOAT_EQ(relevance_of(std::vector{0.0f}, false), 0.5f);
  EXPECT_FLOAT_EQ(relevance_of(std::vector{200.0f}, false), 1.0f);
  EXPECT_FLOAT_EQ(relevance_of(std::vector{-200.0f}, false), 0.0f);
  EXPECT_FLOAT_EQ(relevance_of(std::vector{0.2f, 0.8f}, true), 0.2f);
}

TEST(Relevance, OrdersTheBestFirstAndEqualsAsTheyCame) {
  EXPECT_EQ(best_first(std::vector{0.5f, 0.9f, 0.5f, 0.1f, 0.9f}), (std::vector<size_t>{1, 4, 0, 2, 3}));
  EXPECT_TRUE(best_first({}).empty());
}

}  // namespace
}  // namespace rocmforge::chat
