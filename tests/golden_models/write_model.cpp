#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>

#include "python_random.h"
#include "recipe.h"

namespace rocmforge::golden_models {
namespace {

static_assert(std::endian::native == std::endian::little);

enum ValueType : uint32_t { kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8, kArray = 9 };
constexpr uint64_t kAlignment = 32;

template <class T>
void put(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put_text(std::string& to, const std::string& text) {
  put(to, uint64_t{text.size()});
  to += text;
}

template <class T>
void put_array(std::string& to, ValueType type, const std::vector<T>& items) {
  put(to, kArray);
  put(to, type);
  put(to, uint64_t{items.size()});
  for (const T& item : items) {
    if constexpr (std::is_same_v<T, std::string>) {
      put_text(to, item);
    } else {
      put(to, item);
    }
  }
}

struct PutValue {
  std::string& to;
  void operator()(uint32_t v) const { put(to, kU32), put(to, v); }
  void operator()(float v) const { put(to, kF32), put(to, v); }
  void operator()(bool v) const { put(to, kBool), put(to, v); }
  void operator()(const std::string& v) const { put(to, kString), put_text(to, v); }
  void operator()(const std::vector<int32_t>& v) const { put_array(to, kI32, v); }
  void operator()(const std::vector<float>& v) const { put_array(to, kF32, v); }
  void operator()(const std::vector<std::string>& v) const { put_array(to, kString, v); }
};

// An SPM vocabulary: control tokens, bytes, printable ASCII, and words up to its size.
std::vector<std::pair<std::string, Value>> vocabulary(uint32_t n) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types = {2, 3, 3};
  for (int i = 0; i < 256; i++) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", static_cast<unsigned>(i));
    tokens.emplace_back(text);
    types.push_back(6);
  }
  for (char c = 32; c < 127; c++) tokens.push_back(c == ' ' ? "\u2581" : std::string(1, c));
  while (tokens.size() < n) tokens.push_back("\u2581w" + std::to_string(tokens.size()));
  types.resize(n, 1);
  std::vector<float> scores(n);
  for (uint32_t i = 0; i < n; i++) scores[i] = -static_cast<float>(i);
  return {{"tokenizer.ggml.model", "llama"},      {"tokenizer.ggml.tokens", tokens},
          {"tokenizer.ggml.scores", scores},      {"tokenizer.ggml.token_type", types},
          {"tokenizer.ggml.bos_token_id", 1u},    {"tokenizer.ggml.eos_token_id", 2u},
          {"tokenizer.ggml.unknown_token_id", 0u}};
}

const std::vector<double>& quantiles() {
  static const std::vector<double> table = [] {
    std::vector<double> out(65536);
    for (size_t i = 0; i < out.size(); i++) out[i] = normal_quantile((static_cast<double>(i) + 0.5) / 65536);
    return out;
  }();
  return table;
}

// Mean and deviation of a tensor's weights; none: a ramp that rises from 1 by `ramp`.
struct Shape {
  double mean = 0, deviation = 0, ramp = 0;
};

Shape shape_of(const Recipe& recipe, const Recipe::Tensor& tensor) {
  const std::string& name = tensor.name;
  const std::string leaf = name.starts_with("blk.") ? name.substr(name.find('.', 4) + 1) : name;
  if (recipe.qk_deviation != 0 && (leaf == "attn_q.weight" || leaf == "attn_k.weight")) {
    return {0, recipe.qk_deviation};
  }
  if (leaf == "attn_q_norm.weight" || leaf == "attn_k_norm.weight") return {recipe.qk_norm, 0.1 * recipe.qk_norm};
  for (const char* norm : {"norm.weight", "norm_2.weight", "norm"}) {
    if (name.ends_with(norm)) return {1, 0.1};
  }
  if (name.ends_with(".bias")) return {0, 0.1};
  if (name == "rope_freqs.weight") return {.ramp = 7.0};
  if (name == "rope_factors_long.weight") return {.ramp = 9.0};
  if (name == "rope_factors_short.weight") return {.ramp = 0.5};
  if (leaf == "attn_sinks.weight") return {0, 1};
  // The first set draws them like matrices.
  const bool is_added = name == "position_embd.weight" || name == "token_types.weight";
  if (is_added && recipe.draw == Recipe::Draw::quantiles) return {0, 0.5};
  if (name == "token_embd.weight") return {0, recipe.embedding};
  return {0, 1.5 / std::pow(static_cast<double>(tensor.dims[0]), 0.5)};
}

std::string values(PythonRandom& random, const Recipe& recipe, const Recipe::Tensor& tensor) {
  uint64_t n = 1;
  for (const uint64_t dim : tensor.dims) n *= dim;
  const Shape shape = shape_of(recipe, tensor);
  std::vector<float> out(n);
  if (shape.ramp != 0) {
    for (uint64_t i = 0; i < n; i++) {
      out[i] = static_cast<float>(1.0 + shape.ramp * (static_cast<double>(i) / static_cast<double>(n)));
    }
  } else if (recipe.draw == Recipe::Draw::gauss) {
    for (float& x : out) x = static_cast<float>(random.gauss(shape.mean, shape.deviation));
  } else {
    const std::vector<uint16_t> bits = random.halves(n);
    for (uint64_t i = 0; i < n; i++) {
      out[i] = static_cast<float>(shape.mean + shape.deviation * quantiles()[bits[i]]);
    }
  }
  return {reinterpret_cast<const char*>(out.data()), n * sizeof(float)};
}

}  // namespace

bool write_model(const std::string& path, const Recipe& recipe) {
  std::vector<std::pair<std::string, Value>> keys = {
      {"general.architecture", recipe.architecture}, {"general.name", recipe.name}, {"general.alignment", 32u}};
  keys.insert(keys.end(), recipe.keys.begin(), recipe.keys.end());
  const auto words = vocabulary(recipe.n_vocabulary);
  keys.insert(keys.end(), words.begin(), words.end());

  std::string header = "GGUF";
  put(header, uint32_t{3});
  put(header, uint64_t{recipe.tensors.size()});
  put(header, uint64_t{keys.size()});
  for (const auto& [key, value] : keys) {
    put_text(header, key);
    std::visit(PutValue{header}, value);
  }
  uint64_t at = 0;
  for (const Recipe::Tensor& tensor : recipe.tensors) {
    put_text(header, tensor.name);
    put(header, static_cast<uint32_t>(tensor.dims.size()));
    uint64_t n_bytes = sizeof(float);
    for (const uint64_t dim : tensor.dims) {
      put(header, dim);
      n_bytes *= dim;
    }
    put(header, uint32_t{0});  // F32
    put(header, at);
    at += (n_bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  const auto pad = [](std::string bytes) {
    bytes.resize((bytes.size() + kAlignment - 1) / kAlignment * kAlignment);
    return bytes;
  };

  const std::string unfinished = path + ".new";
  std::ofstream file(unfinished, std::ios::binary);
  PythonRandom random(recipe.seed);
  file << pad(header);
  for (const Recipe::Tensor& tensor : recipe.tensors) file << pad(values(random, recipe, tensor));
  file.close();
  return file.good() && std::rename(unfinished.c_str(), path.c_str()) == 0;
}

}  // namespace rocmforge::golden_models
