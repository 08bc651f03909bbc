#include <gtest/gtest.h>

#include "server/api/scripted_model.h"

namespace rocmforge::server::testing {
namespace {

class RerankTest : public ScriptedApi {
 protected:
  void SetUp() override {
    ScriptedApi::SetUp();
    model_->pooling = Pooling::rank;
    model_->encode_pair = [this](std::string_view query, std::string_view document) {
      return tokenizer_->encode(std::string(query) + "|" + std::string(document));
    };
  }
  // Answers the texts that are under way, in order.
  void score(std::initializer_list<float> scores) {
    size_t i = 0;
    for (const float one : scores) embedded_.at(i++).second(FinishEvent{.embedding = {one}});
    do_work();
  }
};

TEST_F(RerankTest, OrdersDocumentsByRelevanceOnEveryPath) {
  for (const char* path : {"/v1/rerank", "/rerank", "/v2/rerank", "/reranking", "/v1/reranking"}) {
    embedded_.clear();
    const auto exchange = send("POST", path, R"({"model":"story","query":"q","documents":["a","b",{"text":"c"}]})");
    ASSERT_EQ(embedded_.size(), 3u) << path;
    EXPECT_EQ(embedded_[0].first.pooling, Pooling::rank);
    score({-1.0f, 2.0f, 0.0f});
    const JsonValue json = answer_of(exchange).json();
    EXPECT_EQ(text(at(json, "object")), "list");
    EXPECT_EQ(text(at(json, "model")), "story");
    EXPECT_EQ(at(json, "results").as<JsonArray>()->size(), 3u);
    EXPECT_EQ(text(at(json, "results", 0, "index")), "1");
    EXPECT_EQ(text(at(json, "results", 1, "index")), "2");
    EXPECT_EQ(text(at(json, "results", 2, "index")), "0");
    EXPECT_EQ(text(at(json, "results", 1, "relevance_score")), "0.5") << "the logistic function of 0";
    EXPECT_FALSE(at(json, "results", 0).find("document"));
    EXPECT_GT(*at(json, "usage", "total_tokens").as<int64_t>(), 0);
  }
}

TEST_F(RerankTest, GivesTheBestWithTheirTexts) {
  const auto exchange =
      send("POST", "/v1/rerank", R"({"query":"q","documents":["a","b","c"],"top_n":1,"return_documents":true})");
  score({1.0f, 3.0f, 2.0f});
  const JsonValue json = answer_of(exchange).json();
  EXPECT_EQ(at(json, "results").as<JsonArray>()->size(), 1u);
  EXPECT_EQ(text(at(json, "results", 0, "document", "text")), "b");
}

TEST_F(RerankTest, LeavesProbabilitiesAndRawScoresAsTheyAre) {
  auto exchange = send("POST", "/v1/rerank", R"({"query":"q","documents":["a"],"raw_scores":true})");
  score({-2.5f});
  EXPECT_EQ(text(at(answer_of(exchange).json(), "results", 0, "relevance_score")), "-2.5");
  embedded_.clear();
  model_->scores_are_probabilities = true;
  exchange = send("POST", "/v1/rerank", R"({"query":"q","documents":["a"]})");
  score({0.25f});
  EXPECT_EQ(text(at(answer_of(exchange).json(), "results", 0, "relevance_score")), "0.25");
}

TEST_F(RerankTest, RefusesBadInputByName) {
  for (const auto& [body, param] : {std::pair{R"({"documents":["a"]})", "query"},
                                    {R"({"query":"","documents":["a"]})", "query"},
                                    {R"({"query":5,"documents":["a"]})", "query"},
                                    {R"({"query":"q"})", "documents"},
                                    {R"({"query":"q","documents":[]})", "documents"},
                                    {R"({"query":"q","documents":"a"})", "documents"},
                                    {R"({"query":"q","documents":["a",5]})", "documents[1]"},
                                    {R"({"query":"q","documents":[{"title":"a"}]})", "documents[0]"},
                                    {R"({"query":"q","documents":["a"],"top_n":0})", "top_n"}}) {
    const Answer answer = post("/v1/rerank", body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_EQ(text(at(answer.json(), "error", "param")), param) << body;
  }
  const Answer answer = post("/v1/rerank", R"({"query":"q","documents":[")" + std::string(20'000, 'x') + "\"]}");
  EXPECT_EQ(text(at(answer.json(), "error", "code")), "context_length_exceeded");
  EXPECT_TRUE(embedded_.empty());
}

TEST_F(RerankTest, AsksForTheRightKindOfModel) {
  const Answer embedding = post("/v1/embeddings", R"({"input":"x"})");
  EXPECT_EQ(embedding.status, 400) << "a reranker's scores are no embedding";
  EXPECT_NE(embedding.body.find("/v1/rerank"), std::string::npos);
  model_->encode_pair = nullptr;
  const Answer rerank = post("/v1/rerank", R"({"query":"q","documents":["a"]})");
  EXPECT_EQ(rerank.status, 400);
  EXPECT_EQ(text(at(rerank.json(), "error", "param")), "model");
}

}  // namespace
}  // namespace rocmforge::server::testing
