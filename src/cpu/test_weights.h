#pragma once
// For the tests of this room: random weights of any type with their exact values, and products in double precision.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "cpu/isa/choose.h"
#include "cpu/weight.h"
#include "gguf/random_blocks.h"
#include "tensor/codec.h"
#include "tensor/half.h"
#include "tensor/packed.h"

namespace rocmforge::cpu {

inline std::vector<float> random_floats(gguf::RandomBits& random, size_t n, float deviation = 1.0f) {
  std::vector<float> out(n);
  for (float& value : out) value = deviation * random.normal();
  return out;
}

// Every type that may hold weights.
inline std::vector<DType> weight_dtypes() {
  std::vector<DType> out;
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.use == DTypeUse::weight) out.push_back(info.dtype);
  }
  return out;
}

// A weight as it would lie in an arena of these kernels, with its values.
struct TestWeight {
  std::vector<std::byte> file;
  std::vector<std::byte> memory;
  std::vector<float> values;
  Weight weight;

  float value(uint64_t row, uint64_t i) const { return values[row * weight.shape.row_elements + i]; }
};

inline std::unique_ptr<TestWeight> make_weight(const Kernels& kernels, const WeightShape& shape,
                                               gguf::RandomBits& random) {
  auto w = std::make_unique<TestWeight>();
  const DTypeInfo& info = dtype_info(shape.dtype);
  const uint64_t n_elements = shape.n_rows * shape.row_elements;
  w->file = gguf::random_blocks(shape.dtype, n_elements / info.block_elements, random);
  w->values.resize(n_elements);
  decode(w->values, shape.dtype, w->file);
  w->memory = w->file;
  w->weight = {shape, w->memory.data(), packed_format(kernels, shape)};
  for (uint64_t r = 0; r < w->weight.n_packed_rows(); r += w->weight.format->n_rows) {
    const uint64_t at = r * shape.row_bytes();
    w->weight.format->pack(w->memory.data() + at, w->file.data() + at, w->weight.n_groups());
  }
  return w;
}

// Rows of inputs in the form that a packed format asks for, and what they are after rounding.
struct FormedInputs {
  FormedInputs(const Kernels& kernels, InputForm form, std::vector<float> inputs) : values(std::move(inputs)) {
    const size_t n = values.size();
    blocks.resize(n / kQuantElements);
    halves.resize(n);
    switch (form) {
      case InputForm::floats:
        break;
      case InputForm::bf16:
        kernels.to_bf16(halves.data(), values.data(), n);
        for (size_t i = 0; i < n; i++) values[i] = to_float(Bf16{halves[i]});
        break;
      case InputForm::blocks:
        kernels.quantize(blocks.data(), values.data(), blocks.size());
        for (size_t i = 0; i < n; i++) {
          const QuantBlock& block = blocks[i / kQuantElements];
          values[i] = block.scale * static_cast<float>(block.q[i % kQuantElements]);
        }
        break;
    }
    for (size_t i = 0; i < n; i += kQuantElements) {
      places.push_back(form == InputForm::floats ? static_cast<const void*>(&values[i])
                       : form == InputForm::bf16 ? static_cast<const void*>(&halves[i])
                                                 : static_cast<const void*>(&blocks[i / kQuantElements]));
    }
  }
  const void* at(size_t element) const { return places[element / kQuantElements]; }

  std::vector<float> values;
  std::vector<QuantBlock> blocks;
  std::vector<uint16_t> halves;
  std::vector<const void*> places;  // of every 32 elements
};

// The exact product of one row, and the sum of its terms' magnitudes: the measure of rounding errors.
struct Exact {
  double value = 0;
  double magnitude = 0;
};

inline Exact exact_dot(const float* a, const float* b, size_t n) {
  Exact exact;
  for (size_t i = 0; i < n; i++) {
    const double product = double{a[i]} * b[i];
    exact.value += product;
    exact.magnitude += std::abs(product);
  }
  return exact;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Tests that run once for every table this machine has.
class EveryIsa : public ::testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& kernels() const { return *GetParam(); }
};

#define RF_FOR_EVERY_ISA(suite)                                                                          \
  INSTANTIATE_TEST_SUITE_P(                                                                              \
      Isa, suite, ::testing::ValuesIn(cpu::available_kernels().begin(), cpu::available_kernels().end()), \
      [](const ::testing::TestParamInfo<const cpu::Kernels*>& p) { return std::string(p.param->name); })

}  // namespace rocmforge::cpu
