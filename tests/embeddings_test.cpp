// Embeddings and rerankers against the reference: every family, every pooling. And what holds for all of them: a text
// alone and in company has the same bits.

#include <gtest/gtest.h>

#include <fmt/core.h>

#include "engine/embedder.h"
#include "engine/engine.h"
#include "engine/model.h"
#include "engine/session.h"
#include "support/embedding_golden.h"
#include "support/engine_fixture.h"
#include "support/variants.h"

namespace rocmforge {
namespace {

using Case = testing::EmbeddingCase;
using Reference = testing::EmbeddingGolden;

std::unique_ptr<Model> open(const std::string& path, size_t n_threads = 1) {
  auto model = Model::open(path, {.device = "cpu", .n_threads = n_threads});
  EXPECT_TRUE(model.ok()) << model.error().message;
  return model.ok() ? std::move(*model) : nullptr;
}

std::vector<std::vector<float>> embed(const Model& model, std::vector<EmbeddingRequest> requests) {
  auto embedder = Embedder::create(model.plan(), {.kv_type = KvType::f32});
  EXPECT_TRUE(embedder.ok()) << embedder.error().message;
  if (!embedder.ok()) return {};
  auto out = (*embedder)->embed(std::move(requests));
  EXPECT_TRUE(out.ok()) << out.error().message;
  return out.ok() ? std::move(*out) : std::vector<std::vector<float>>();
}

class Embeddings : public ::testing::TestWithParam<Case> {};

TEST_P(Embeddings, EqualTheReference) {
  const Case& param = GetParam();
  const std::string path = testing::variant_file(param.model);
  if (path.empty()) GTEST_SKIP() << "the reference model '" << param.model << "' was not made";
  RF_NEED_SHARED(golden, fmt::format("goldens/embeddings2/{}.txt", param.golden));
  const Reference reference = Reference::read(golden);
  const auto model = open(path);
  ASSERT_NE(model, nullptr);
  const auto ours = embed(*model, {{.tokens = reference.tokens, .pooling = param.pooling, .normalise = false}});
  ASSERT_EQ(ours.size(), 1u);
  ASSERT_EQ(ours[0].size(), reference.embedding.size());
  testing::Nmse nmse;
  nmse.add(ours[0], reference.embedding);
  RecordProperty("nmse", fmt::format("{:.3g}", nmse.value()));
  EXPECT_LE(nmse.value(), param.tolerance);
}

// The tokens of texts of different lengths, beyond a tile of keys and a window.
std::vector<EmbeddingRequest> some_texts(const Model& model, Pooling pooling) {
  std::vector<EmbeddingRequest> requests;
  for (const size_t n : {1u, 5u, 64u, 65u, 17u, 130u, 70u}) {
    requests.push_back(
        {.tokens = testing::some_tokens(n, model.plan().spec().n_vocab), .pooling = pooling, .normalise = false});
  }
  return requests;
}

TEST_P(Embeddings, CompanyAndThreadsChangeNoBit) {
  const Case& param = GetParam();
  const std::string path = testing::variant_file(param.model);
  if (path.empty()) GTEST_SKIP() << "the reference model '" << param.model << "' was not made";
  const auto model = open(path), parallel = open(path, 3);
  ASSERT_TRUE(model != nullptr && parallel != nullptr);
  const auto together = embed(*model, some_texts(*model, param.pooling));
  EXPECT_TRUE(embed(*parallel, some_texts(*model, param.pooling)) == together);
  const auto texts = some_texts(*model, param.pooling);
  for (size_t i = 0; i < texts.size(); i++) {
    const auto alone = embed(*model, {texts[i]});
    ASSERT_EQ(alone.size(), 1u);
    EXPECT_TRUE(alone[0] == together[i]) << "text " << i;
  }
}

const auto kNameOf = [](const auto& test) { return testing::test_name(test.param.golden); };
INSTANTIATE_TEST_SUITE_P(Made, Embeddings, ::testing::ValuesIn(testing::kMadeEmbeddings), kNameOf);
INSTANTIATE_TEST_SUITE_P(Others, Embeddings, ::testing::ValuesIn(testing::kOtherEmbeddings), kNameOf);

class Encoder : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::variant_file("bert");
    if (path_.empty()) GTEST_SKIP() << "the reference model 'bert' was not made";
    model_ = open(path_);
    ASSERT_NE(model_, nullptr);
  }
  std::string path_;
  std::unique_ptr<Model> model_;
};

TEST_F(Encoder, PoolsAsItsFileSays) {
  EXPECT_EQ(model_->plan().spec().pooling, Pooling::first);
  EXPECT_EQ(model_->plan().default_pooling(), Pooling::first);
}

TEST_F(Encoder, IsScaledToLengthOneUnlessAskedNotTo) {
  auto requests = some_texts(*model_, Pooling::mean);
  for (auto& request : requests) request.normalise = true;
  for (const auto& values : embed(*model_, std::move(requests))) {
    double squares = 0;
    for (const float value : values) squares += double{value} * value;
    EXPECT_NEAR(squares, 1, 1e-6);
  }
}

TEST_F(Encoder, KeepsNothingOfATextInMemory) {
  const auto memory = model_->plan().pass_memory(512, 8, 100, KvType::f16);
  EXPECT_EQ(model_->plan().memory_bill(memory).kv_bytes, 0u);
}

TEST_F(Encoder, RefusesToWriteText) {
  auto session = Session::create(model_->plan(), {});
  ASSERT_TRUE(session.ok()) << session.error().message;
  const std::vector<TokenId> tokens = {TokenId(1), TokenId(2)};
  const auto logits = session->evaluate(tokens);
  ASSERT_FALSE(logits.ok());
  EXPECT_EQ(logits.error().code, ErrorCode::unsupported);
  EXPECT_NE(logits.error().message.find("bert"), std::string::npos);

  auto engine = Engine::create(std::move(model_), {});
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  testing::Collector collector;
  const auto submitted = (*engine)->submit(GenerationRequest{.prompt = tokens, .sampling = {}}, collector.receiver());
  ASSERT_FALSE(submitted.ok());
  EXPECT_EQ(submitted.error().code, ErrorCode::unsupported);
}

TEST_F(Encoder, RefusesWhatItCannotEmbed) {
  auto embedder = Embedder::create(model_->plan());
  ASSERT_TRUE(embedder.ok()) << embedder.error().message;
  const auto code_of = [&](EmbeddingRequest request) {
    const auto out = (*embedder)->embed({std::move(request)});
    return out.ok() ? std::optional<ErrorCode>() : out.error().code;
  };
  EXPECT_EQ(code_of({.tokens = {}}), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({.tokens = {TokenId(384)}}), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({.tokens = {TokenId(-1)}}), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({.tokens = {TokenId(1)}, .pooling = Pooling::rank}), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({.tokens = std::vector<TokenId>(513, TokenId(1))}), ErrorCode::limit_exceeded);
  EXPECT_EQ(code_of({.tokens = std::vector<TokenId>(512, TokenId(1))}), std::nullopt);
}

// The engine's thread takes whole texts into a step, as many as fit.
TEST_F(Encoder, ServesManyTextsAtOnce) {
  const auto texts = some_texts(*model_, Pooling::first);
  const auto expected = embed(*model_, texts);
  auto engine = Engine::create(std::move(model_), {.max_running = 4, .max_step_tokens = 8});
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  std::vector<testing::Collector> collectors(texts.size());
  for (size_t i = 0; i < texts.size(); i++) {
    ASSERT_TRUE((*engine)->submit(texts[i], collectors[i].receiver()).ok());
  }
  for (size_t i = 0; i < texts.size(); i++) EXPECT_TRUE(collectors[i].wait().embedding == expected[i]) << i;
}

}  // namespace
}  // namespace rocmforge
