// POST /v1/rerank, in the shape of Jina's and Cohere's

#include <fmt/core.h>

#include <algorithm>

#include "chat/rerank.h"
#include "server/api/embedding_run.h"
#include "server/api/generation_fields.h"
#include "server/api/request_fields.h"
#include "server/api/routes.h"

namespace rocmforge::server {
namespace {

constexpr size_t kMaxDocuments = 8192;

struct RerankFields {
  std::string model;
  std::string query;
  std::vector<std::string> documents;
  std::vector<std::vector<TokenId>> pairs;  // the query with each of them
  size_t n_best = 0;
  bool returns_documents = false;
  bool raw = false;
};

// A document is a string, or an object with a text.
void read_documents(Fields& fields, const SizeCheck& check_size, RerankFields& out) {
  const JsonArray* documents = fields.array("documents", kMaxDocuments);
  if (!documents) documents = fields.array("texts", kMaxDocuments);  // text-embeddings-inference
  if (fields.error()) return;
  if (!documents || documents->empty()) {
    return fields.refuse("documents", fmt::format("must hold 1 to {} texts.", kMaxDocuments));
  }
  for (size_t i = 0; i < documents->size() && !fields.error(); i++) {
    const JsonValue& one = (*documents)[i];
    const JsonValue* inner = one.as<JsonObject>() ? one.find("text") : &one;
    const std::string* text = inner ? inner->as<std::string>() : nullptr;
    const std::string name = fmt::format("documents[{}]", i);
    if (!text) return fields.refuse(name, "must be a string, or an object with a 'text'.");
    if (auto error = check_size(text->size(), name)) return fields.refuse(std::move(*error));
    out.documents.push_back(*text);
  }
}

RerankFields read_fields(Fields& fields, const ServedModel& model) {
  RerankFields out;
  out.model = fields.text("model").value_or("");
  if (out.model.empty()) out.model = model.name;
  const auto query = fields.text("query");
  if (!query || query->empty()) {
    fields.refuse("query", "must be a text.");
    return out;
  }
  const SizeCheck check_size(model);
  if (auto error = check_size(query->size(), "query")) fields.refuse(std::move(*error));
  out.query = *query;
  read_documents(fields, check_size, out);
  out.n_best = out.documents.size();
  if (const auto n = fields.integer("top_n", 1, INT32_MAX)) {
    out.n_best = std::min(out.n_best, static_cast<size_t>(*n));
  }
  out.returns_documents = fields.boolean("return_documents").value_or(false);
  out.raw = fields.boolean("raw_scores").value_or(false);
  return out;
}

void encode_pairs(Fields& fields, const Call& call, const ServedModel& model, RerankFields& out) {
  for (const std::string& document : out.documents) {
    if (fields.error() || call.is_abandoned()) return;
    auto tokens = model.encode_pair(out.query, document);
    if (!tokens.ok()) return fields.refuse(ApiError::from(tokens.error()));
    if (tokens->size() > model.n_context) {
      ApiError error = ApiError::context_length(model.n_context, tokens->size(), 0);
      error.param = fmt::format("documents[{}]", out.pairs.size());
      return fields.refuse(std::move(error));
    }
    out.pairs.push_back(std::move(*tokens));
  }
}

std::string to_json(const RerankFields& fields, bool are_probabilities, uint64_t n_tokens,
                    const std::vector<std::vector<float>>& results) {
  std::vector<float> relevance;
  for (const auto& scores : results) {
    relevance.push_back(fields.raw ? scores.at(0) : chat::relevance_of(scores, are_probabilities));
  }
  std::vector<size_t> order = chat::best_first(relevance);
  order.resize(fields.n_best);
  JsonWriter w;
  w.begin_object().key("id").value(make_id("rerank")).key("object").value("list").key("model").value(fields.model);
  w.key("results").begin_array();
  for (const size_t i : order) {
    w.begin_object().key("index").value(uint64_t{i}).key("relevance_score").value(relevance[i]);
    if (fields.returns_documents) {
      w.key("document").begin_object().key("text").value(fields.documents[i]).end_object();
    }
    w.end_object();
  }
  w.end_array().key("usage").begin_object();
  w.key("prompt_tokens").value(n_tokens).key("total_tokens").value(n_tokens).end_object();
  w.key("meta").begin_object().key("tokens").begin_object().key("input_tokens").value(n_tokens).end_object();
  return w.end_object().end_object().take();
}

// No answer is longer: a character may become six.
uint64_t max_answer_bytes(const RerankFields& fields) {
  constexpr uint64_t kAround = 128;
  uint64_t n_bytes = (fields.documents.size() + 4) * kAround;
  for (const std::string& document : fields.documents) n_bytes += fields.returns_documents ? 6 * document.size() : 0;
  return n_bytes;
}

}  // namespace

void rerank(const Call& call) {
  const auto body = call.read_body();
  if (!body) return;
  call.with_model(*body, [call, body](ModelRef model) {
    if (!model->encode_pair) {
      return call.refuse(
          ApiError::bad_param("model", "This model has no classifier: it is no reranker.", "unsupported_feature"));
    }
    Fields fields(*body);
    refuse_unsupported(fields, FieldFamily::embeddings);
    RerankFields read = read_fields(fields, *model);
    if (!fields.error()) encode_pairs(fields, call, *model, read);
    if (call.is_abandoned()) return;
    if (fields.error()) return call.refuse(*fields.error());
    call.tell_ignored(ignored_names(fields));
    uint64_t n_tokens = 0;
    for (const auto& pair : read.pairs) n_tokens += pair.size();
    call.record->note([&](RequestRecord::Facts& facts) { facts.n_prompt = n_tokens; });
    constexpr std::string_view kAdvice = "Send fewer documents at a time, or do without 'return_documents'.";
    if (!call.hold_answer(max_answer_bytes(read), "documents", kAdvice)) return;
    auto pairs = std::move(read.pairs);
    const bool are_probabilities = model->scores_are_probabilities;
    std::make_shared<EmbeddingRun>(call, std::move(model), std::move(pairs), Pooling::rank,
                                   [body, fields = std::move(read), are_probabilities, n_tokens](const auto& results) {
                                     return to_json(fields, are_probabilities, n_tokens, results);
                                   })
        ->start();
  });
}

}  // namespace rocmforge::server
