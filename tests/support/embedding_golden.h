#pragma once
// Reference embeddings: the input tokens, and the pooled row of the reference.
//
//   tokens 1 104 71 ...
//   embedding mean 0.0749936 -0.303931 ...

#include <sstream>
#include <string>
#include <vector>

#include "model/spec.h"
#include "support/golden_check.h"

namespace rocmforge::testing {

struct EmbeddingCase {
  const char* model;
  Pooling pooling;
  const char* golden;
  double tolerance;
};
inline void PrintTo(const EmbeddingCase& value, std::ostream* out) {
  *out << value.golden;
}

inline constexpr double kExact = 1e-8;
inline constexpr double kWithGelu = 1e-6;  // the reference computes it from a table in half precision

// Those that tests/golden_models makes, and the others. T5's references are those of an independent program in double
// precision (tests/data/embeddings2/README.md): the other one's were made with causal attention.
inline const std::vector<EmbeddingCase> kMadeEmbeddings = {
    {"bert", Pooling::mean, "bert.mean", kWithGelu},
    {"bert", Pooling::first, "bert.cls", kWithGelu},
    {"bert", Pooling::last, "bert.last", kWithGelu},
    {"bert-rank", Pooling::rank, "bert-rank", kWithGelu},
    {"nomic-bert", Pooling::mean, "nomic-bert", kExact},
    {"jina-bert-v2", Pooling::mean, "jina-bert-v2", kWithGelu},
    {"modern-bert", Pooling::mean, "modern-bert.mean", kWithGelu},
    {"modern-bert", Pooling::first, "modern-bert.cls", kWithGelu},
    {"gemma-embedding", Pooling::mean, "gemma-embedding", kWithGelu},
    {"qwen3-embed", Pooling::last, "qwen3-embed.last", kExact},
    {"qwen3-embed", Pooling::mean, "qwen3-embed.mean", kExact},
};
inline const std::vector<EmbeddingCase> kOtherEmbeddings = {
    {"bert-plain", Pooling::mean, "bert-plain", kWithGelu},
    {"bert-rank-direct", Pooling::rank, "bert-rank-direct", kWithGelu},
    {"nomic-bert-moe", Pooling::mean, "nomic-bert-moe", kWithGelu},
    {"jina-bert-v2-code", Pooling::mean, "jina-bert-v2-code", kWithGelu},
    {"jina-bert-v2-rank", Pooling::rank, "jina-bert-v2-rank", kWithGelu},
    {"jina-bert-v3", Pooling::mean, "jina-bert-v3", kWithGelu},
    {"modern-bert-silu", Pooling::first, "modern-bert-silu", kExact},
    {"modern-bert-rank", Pooling::rank, "modern-bert-rank", kWithGelu},
    {"gemma-embedding-dense", Pooling::mean, "gemma-embedding-dense", kWithGelu},
    {"qwen3-rank", Pooling::rank, "qwen3-rank", kExact},
    {"eurobert", Pooling::mean, "eurobert", kExact},
    {"neo-bert", Pooling::first, "neo-bert", kExact},
    {"llama-embed", Pooling::mean, "llama-embed", kExact},
    {"t5encoder", Pooling::mean, "t5encoder-both-ways", kWithGelu},
    {"t5encoder-old", Pooling::mean, "t5encoder-old-both-ways", kExact},
};

// A text and what the reference gives it: an embedding before normalisation, or scores.
struct EmbeddingGolden {
  std::vector<TokenId> tokens;
  std::vector<float> embedding;

  static EmbeddingGolden read(const std::string& path) {
    EmbeddingGolden golden{.tokens = Golden::read(path).tokens, .embedding = {}};
    std::istringstream lines(read_text(path));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string kind, pooling;
      words >> kind;
      if (kind != "embedding") continue;
      words >> pooling;
      for (float x; words >> x;) golden.embedding.push_back(x);
    }
    return golden;
  }
};

}  // namespace rocmforge::testing
