#pragma once
// What a tiny model is made of: keys, tensors, and how its weights are drawn.

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace rocmforge::golden_models {

using Value = std::variant<uint32_t, float, bool, std::string, std::vector<int32_t>, std::vector<float>,
                           std::vector<std::string>>;

struct Dims {
  uint32_t vocabulary = 512, width = 256, ff = 512, heads = 4, kv_heads = 2, head_size = 64, layers = 3;
  uint32_t expert_ff = 256;
};

struct Recipe {
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;  // the first is that of a row
  };
  enum class Draw : uint8_t { gauss, quantiles };

  std::string name;  // the file's, without ".gguf"
  std::string seed;
  std::string architecture;
  uint32_t n_vocabulary = 0;
  std::vector<std::pair<std::string, Value>> keys;
  std::vector<Tensor> tensors;
  Draw draw = Draw::gauss;
  double embedding = 1.0;   // deviation of the token table
  double qk_norm = 1.0;     // mean of the norms of queries and keys
  double qk_deviation = 0;  // of the weights of queries and keys; 0: as of others
};

// The first set, of which each family is one, and its sizes beyond the usual; the variants of families; models for
// embeddings.
std::vector<Recipe> first_recipes();
std::vector<Recipe> variant_recipes();
std::vector<Recipe> encoder_recipes();

// Writes the model as GGUF. False: the file could not be written.
bool write_model(const std::string& path, const Recipe& recipe);

}  // namespace rocmforge::golden_models
