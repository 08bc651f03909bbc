#pragma once
// Samples that every program can reproduce to the bit (only sums, products, quotients and square roots of IEEE
// doubles), and the error of llama.cpp's encoders on them.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace rocmforge {

enum class SampleKind { normal, laplace, heavy_tailed, varied_scales };

struct EncodeSamples {
  static constexpr size_t kRows = 64;
  static constexpr size_t kColumns = 1024;

  SampleKind kind;
  std::string name;
  std::vector<float> values;  // kRows x kColumns
};

// SplitMix64.
class SampleRng {
 public:
  explicit SampleRng(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  double normal() {  // approximately normal: the sum of twelve uniform numbers
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += uniform();
    return sum;
  }

 private:
  uint64_t state_;
};

inline EncodeSamples make_samples(SampleKind kind, std::string name) {
  SampleRng rng(static_cast<uint64_t>(kind));
  std::vector<float> values;
  double block_scale = 1;
  for (size_t i = 0; i < EncodeSamples::kRows * EncodeSamples::kColumns; i++) {
    switch (kind) {
      case SampleKind::normal:
        values.push_back(static_cast<float>(rng.normal()));
        break;
      case SampleKind::laplace: {  // a determinant of four normal numbers has that distribution
        const double z1 = rng.normal(), z2 = rng.normal(), z3 = rng.normal(), z4 = rng.normal();
        values.push_back(static_cast<float>(z1 * z2 - z3 * z4));
        break;
      }
      case SampleKind::heavy_tailed: {
        const double z = rng.normal();
        values.push_back(static_cast<float>(z / std::sqrt(rng.uniform() + 0x1p-20)));
        break;
      }
      case SampleKind::varied_scales: {  // per row 2^-10 .. 2^5, per 32 columns 2^-4 .. 2^4; the mean is not zero
        if (i % 32 == 0) {
          const double mantissa = 1 + rng.uniform();
          block_scale = std::ldexp(mantissa, static_cast<int>(rng.next() >> 61) - 4);
        }
        const int row_exponent = static_cast<int>(i / EncodeSamples::kColumns % 16) - 10;
        values.push_back(static_cast<float>((rng.normal() + 0.5) * std::ldexp(block_scale, row_exponent)));
        break;
      }
    }
  }
  return {kind, std::move(name), std::move(values)};
}

inline std::vector<EncodeSamples> encode_samples() {
  return {make_samples(SampleKind::normal, "normal"), make_samples(SampleKind::laplace, "laplace"),
          make_samples(SampleKind::heavy_tailed, "heavy-tailed"),
          make_samples(SampleKind::varied_scales, "varied scales")};
}

// Mean over the rows of squared error / sum of squares; ggml_quantize_chunk of llama.cpp b21e4de with an importance of
// 1 for every column, which selects its more thorough search: 0.5 to 25 % less error than without (2026-11).
struct ReferenceError {
  DType dtype;
  double errors[4];

  double of(SampleKind kind) const { return errors[static_cast<size_t>(kind)]; }
};

inline constexpr ReferenceError kReferenceErrors[] = {
    {DType::q4_0, {6.48093e-3, 1.03463e-2, 1.86024e-2, 6.44402e-3}},
    {DType::q4_1, {4.78676e-3, 6.71019e-3, 8.84056e-3, 3.94448e-3}},
    {DType::q5_0, {1.58923e-3, 2.54017e-3, 5.46229e-3, 1.58284e-3}},
    {DType::q5_1, {1.11903e-3, 1.56789e-3, 2.14250e-3, 9.26898e-4}},
    {DType::q8_0, {2.79282e-5, 4.38125e-5, 9.38463e-5, 2.81053e-5}},
    {DType::q2_k, {7.04625e-2, 8.88124e-2, 8.33097e-2, 6.04490e-2}},
    {DType::q3_k, {2.04893e-2, 2.81977e-2, 3.36369e-2, 1.96804e-2}},
    {DType::q4_k, {4.90271e-3, 6.87927e-3, 9.26958e-3, 4.05901e-3}},
    {DType::q5_k, {1.22478e-3, 1.72938e-3, 2.41717e-3, 1.02616e-3}},
    {DType::q6_k, {2.91818e-4, 4.33662e-4, 7.93047e-4, 2.94996e-4}},
    {DType::iq4_nl, {5.53241e-3, 7.24056e-3, 1.15541e-2, 5.30346e-3}},
    {DType::iq4_xs, {5.63253e-3, 7.38137e-3, 1.19460e-2, 5.54772e-3}},
    {DType::mxfp4, {1.30809e-2, 1.57373e-2, 2.43284e-2, 1.36568e-2}},
};

}  // namespace rocmforge
