#pragma once
// A small model with activations that halves cannot hold: the inputs of the feed-forward and of the output are around
// 1e5, those of the way down around 1e10, and the values of attention around 1e5 (so its cache has to be f32). The
// router of a mixture of experts takes inputs of 1e5 to scores around 1.
// Header only: for tests of rooms above gguf.

#include <string>

#include "gguf/quantize.h"
#include "support/tiny_model.h"

namespace rocmforge::testing {

// tiny: its shape; mix: as quantize has them, such as "F16" or "Q4_K_M".
inline void write_large_model(const std::string& path, const TinyModel& tiny, std::string_view mix) {
  const std::string floats = path + ".f32";
  auto writer = gguf::GgufWriter::create(floats, tiny.header());
  ASSERT_TRUE(writer.ok()) << writer.error().message;
  std::mt19937_64 rng(tiny.seed);
  for (const gguf::TensorInfo& tensor : writer->tensors()) {
    const bool is_norm = tensor.n_dims == 1;
    const float scale = tensor.name.ends_with("ffn_norm.weight") || tensor.name == "output_norm.weight" ? 1e5f
                        : tensor.name.ends_with("attn_v.weight")                                        ? 5e4f
                        : tensor.name.ends_with("ffn_gate_inp.weight")                                  ? 1e-5f
                                                                                                        : 1.0f;
    std::normal_distribution<float> noise(0, 1.5f / std::sqrt(static_cast<float>(tensor.dims[0])));
    std::vector<float> values(tensor.n_elements);
    for (float& v : values) v = scale * (is_norm ? 1 + noise(rng) : noise(rng));
    ASSERT_TRUE(writer->write(std::as_bytes(std::span(values))).ok());
  }
  ASSERT_TRUE(writer->finish().ok());
  const auto report = gguf::quantize_file(floats, path, *gguf::find_mix(mix), {.n_threads = 1});
  ASSERT_TRUE(report.ok()) << report.error().message;
}

}  // namespace rocmforge::testing
