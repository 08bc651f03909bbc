#include "chat/rerank.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "chat/marked_text.h"

namespace rocmforge::chat {
namespace {

constexpr std::string_view kQuery = "{query}", kDocument = "{document}";

}  // namespace

Result<RerankPrompt> RerankPrompt::load(const gguf::Metadata& metadata) {
  RerankPrompt prompt;
  prompt.template_ = TRY(metadata.string_or("tokenizer.chat_template.rerank", ""));
  for (const std::string_view place : {kQuery, kDocument}) {
    if (prompt.template_.empty() || prompt.template_.find(place) != std::string::npos) continue;
    return Error{ErrorCode::template_syntax,
                 "rerank: key 'tokenizer.chat_template.rerank': the template has no " + std::string(place)};
  }
  return prompt;
}

// Both are put in at once: a query that reads "{document}" is a query.
Result<std::vector<TokenId>> RerankPrompt::encode(const tokenizer::Tokenizer& tokenizer, std::string_view query,
                                                  std::string_view document) const {
  if (template_.empty()) return encode_pair(tokenizer, query, document);
  std::string marked_query(query), marked_document(document), text;
  mark_control_names(marked_query, tokenizer.control_names());
  mark_control_names(marked_document, tokenizer.control_names());
  for (size_t at = 0; at < template_.size();) {
    const size_t to_query = template_.find(kQuery, at), to_document = template_.find(kDocument, at);
    const size_t end = std::min({to_query, to_document, template_.size()});
    text.append(template_, at, end - at);
    at = end;
    if (end == template_.size()) break;
    const bool is_query = end == to_query;
    text += is_query ? marked_query : marked_document;
    at += (is_query ? kQuery : kDocument).size();
  }
  return encode_marked(tokenizer, text);
}

// RoBERTa's kind has a separator more between the two.
Result<std::vector<TokenId>> RerankPrompt::encode_pair(const tokenizer::Tokenizer& tokenizer, std::string_view query,
                                                       std::string_view document) const {
  const tokenizer::Vocabulary& vocabulary = tokenizer.vocabulary();
  std::vector<TokenId> tokens = TRY(tokenizer.encode(query, {.add_bos = true, .add_eos = true}));
  const bool has_separator = vocabulary.kind != tokenizer::Kind::wpm && vocabulary.add_sep;
  if (has_separator && vocabulary.special.sep) tokens.push_back(*vocabulary.special.sep);
  const std::vector<TokenId> rest = TRY(tokenizer.encode(document, {.add_eos = true}));
  tokens.insert(tokens.end(), rest.begin(), rest.end());
  return tokens;
}

float relevance_of(std::span<const float> scores, bool are_probabilities) {
  CHECK(!scores.empty());
  if (are_probabilities) return scores[0];
  return static_cast<float>(1 / (1 + std::exp(-double{scores[0]})));
}

std::vector<size_t> best_first(std::span<const float> relevance) {
  std::vector<size_t> order(relevance.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return std::pair(-relevance[i], i); });
  return order;
}

}  // namespace rocmforge::chat
