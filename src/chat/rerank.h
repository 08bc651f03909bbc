#pragma once
// How a reranker reads a query and a document, and what its scores mean.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "gguf/metadata.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge::chat {

// By the file's template (tokenizer.chat_template.rerank, with {query} and {document} in it), else as BERT's pairs:
// [CLS] query [SEP] document [SEP].
class RerankPrompt {
 public:
  // Errors: metadata_type, and template_syntax for a template without {query} or {document}.
  static Result<RerankPrompt> load(const gguf::Metadata& metadata);

  // Control tokens that query or document spell stay text. Errors: those of Tokenizer::encode().
  Result<std::vector<TokenId>> encode(const tokenizer::Tokenizer& tokenizer, std::string_view query,
                                      std::string_view document) const;

 private:
  Result<std::vector<TokenId>> encode_pair(const tokenizer::Tokenizer& tokenizer, std::string_view query,
                                           std::string_view document) const;

  std::string template_;  // empty: a pair
};

// A number from 0 to 1: a probability is one already, and the first label says "relevant"; else the logistic function
// of the first score. REQUIRES: scores is not empty
float relevance_of(std::span<const float> scores, bool are_probabilities);

// The numbers of documents, the most relevant first; equal ones in their own order. REQUIRES: no relevance is NaN
std::vector<size_t> best_first(std::span<const float> relevance);

}  // namespace rocmforge::chat
