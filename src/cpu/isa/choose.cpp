#include "cpu/isa/choose.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "base/log.h"
#include "gguf/random_blocks.h"
#include "tensor/codec.h"
#include "tensor/packed.h"

namespace rocmforge::cpu {
namespace {

#if defined(__x86_64__)
// Ordered: each has all that the one before has.
enum class Level : uint8_t { baseline, avx2, avx512, avx512bf16 };

Level level_of_this_machine() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return Level::baseline;
  const auto all_of = [](uint32_t bits, uint32_t needed) { return (bits & needed) == needed; };
  if (!all_of(c, bit_FMA | bit_OSXSAVE | bit_AVX | bit_F16C)) return Level::baseline;
  uint32_t saved = 0, unused = 0;  // the registers that the system saves when it switches threads
  __asm__("xgetbv" : "=a"(saved), "=d"(unused) : "c"(0));
  constexpr uint32_t kAvxState = 0x06, kAvx512State = 0xE6;
  if (!all_of(saved, kAvxState)) return Level::baseline;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || !all_of(b, bit_AVX2)) return Level::baseline;
  const bool has_avx512 = all_of(saved, kAvx512State) &&
                          all_of(b, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL) &&
                          all_of(c, bit_AVX512VNNI);
  if (!has_avx512) return Level::avx2;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) == 0 || !all_of(a, bit_AVX512BF16)) return Level::avx512;
  return Level::avx512bf16;
}
#endif

bool is_close(float got, double expected, double magnitude) {
  return std::abs(got - expected) <= 1e-5 * magnitude + 1e-30;
}

// Inputs in a form, each at its own place.
struct PreparedInputs {
  std::vector<QuantBlock> blocks;
  std::vector<uint16_t> halves;
  std::vector<const void*> at;
};

void prepare(PreparedInputs& to, const Kernels& kernels, InputForm form, std::span<const float> values, size_t width) {
  to.blocks.resize(values.size() / kQuantElements);
  to.halves.resize(values.size());
  kernels.quantize(to.blocks.data(), values.data(), to.blocks.size());
  kernels.to_bf16(to.halves.data(), values.data(), values.size());
  for (size_t i = 0; i < values.size(); i += width) {
    switch (form) {
      case InputForm::floats:
        to.at.push_back(values.data() + i);
        break;
      case InputForm::bf16:
        to.at.push_back(to.halves.data() + i);
        break;
      case InputForm::blocks:
        to.at.push_back(to.blocks.data() + i / kQuantElements);
        break;
    }
  }
}

// One unit, two blocks long, times a few tokens whose activations are exact in eight bits.
bool packed_format_works(const Kernels& kernels, const PackedFormat& format, gguf::RandomBits& random) {
  const auto dtype = static_cast<DType>(format.dtype);
  constexpr size_t kGroups = 2, kTokens = 15;  // tiles of every size
  const size_t n_rows = format.n_rows;
  const size_t n = kGroups * packed_elements(dtype);
  const std::vector<std::byte> rows = gguf::random_blocks(dtype, n_rows * n / dtype_info(dtype).block_elements, random);
  std::vector<std::byte> unit(rows.size());
  format.pack(unit.data(), rows.data(), kGroups);

  std::vector<float> activations(kTokens * n), products(kTokens * n_rows);
  for (size_t i = 0; i < activations.size(); i++) {
    activations[i] = i % kQuantElements == 7 ? 127.0f : static_cast<float>(random.below(255)) - 127.0f;
  }
  PreparedInputs in;
  prepare(in, kernels, format.input, activations, n);
  float* out[kTokens];
  for (size_t t = 0; t < kTokens; t++) out[t] = products.data() + t * n_rows;
  format.matmul({unit.data(), 1, kGroups}, {in.at.data(), out, kTokens, 0});

  std::vector<float> weights(n);
  for (size_t r = 0; r < n_rows; r++) {
    const size_t row_bytes = rows.size() / n_rows;
    decode(weights, dtype, std::span(rows).subspan(r * row_bytes, row_bytes));
    for (size_t t = 0; t < kTokens; t++) {
      double expected = 0, magnitude = 0;
      for (size_t i = 0; i < n; i++) {
        const double product = double{weights[i]} * activations[t * n + i];
        expected += product;
        magnitude += std::abs(product);
      }
      if (!is_close(out[t][r], expected, magnitude)) return false;
    }
  }
  return true;
}

// A row of each function against the scalar one.
bool floats_work(const Kernels& kernels, gguf::RandomBits& random) {
  const Kernels& reference = scalar_kernels();
  constexpr size_t n = 43;  // whole registers and a rest
  float a[n], b[n], ours[n], theirs[n];
  for (size_t i = 0; i < n; i++) {
    a[i] = random.normal();
    b[i] = random.normal();
  }
  const auto equal = [&] {
    return std::equal(ours, ours + n, theirs, [](float x, float y) { return is_close(x, y, 1 + std::abs(y)); });
  };
  const auto same = [&](auto&& run) { return run(kernels, ours), run(reference, theirs), equal(); };
  const float* in[] = {b};
  const float keep = 0.5f;
  uint16_t halves[n];
  scalar_kernels().to_f16(halves, a, n);
  const auto product = [&](FloatMatmul matmul, const void* row, float* to) {
    float* out[] = {to};
    std::fill_n(to, n, 0.0f);
    matmul({row, 0, 1, n}, {in, out, 1, 0});
  };
  const auto sum = [&](WeightedSum weighted_sum, const void* row, float* to) {
    float* out[] = {to};
    std::copy_n(b, n, to);
    weighted_sum({row, 0, 1, n}, {in, out, 1, 0}, &keep, nullptr);
  };
  return same([&](const Kernels& k, float* to) { product(k.matmul_f32, a, to); }) &&
         same([&](const Kernels& k, float* to) { product(k.matmul_f16, halves, to); }) &&
         same([&](const Kernels& k, float* to) { product(k.matmul_bf16, halves, to); }) &&
         same([&](const Kernels& k, float* to) { sum(k.weighted_sum_f32, a, to); }) &&
         same([&](const Kernels& k, float* to) { sum(k.weighted_sum_f16, halves, to); }) &&
         same([&](const Kernels& k, float* to) { k.rms_norm(to, a, b, n, 1e-5f); }) &&
         same([&](const Kernels& k, float* to) { k.layer_norm(to, a, b, b, n, 1e-5f); }) &&
         same([&](const Kernels& k, float* to) { std::copy_n(b, n, to), k.add(to, a, n); }) &&
         same([&](const Kernels& k, float* to) { k.silu_multiply(to, a, b, n); }) &&
         same([&](const Kernels& k, float* to) { k.gelu_multiply(to, a, b, n); }) &&
         same([&](const Kernels& k, float* to) {
           RunningSoftmax softmax = {0.5f, 1.0f};
           std::copy_n(a, n, to);
           to[0] = k.add_scores(softmax, to + 1, n - 1, 0.5f) * softmax.sum;
         });
}

}  // namespace

std::span<const Kernels* const> available_kernels() {
  static const std::vector<const Kernels*> tables = [] {
    std::vector<const Kernels*> found = {&scalar_kernels()};
#if defined(__x86_64__)
    const Level level = level_of_this_machine();
    if (level >= Level::avx2) found.push_back(&avx2_kernels());
    if (level >= Level::avx512) found.push_back(&avx512_kernels());
    if (level >= Level::avx512bf16) found.push_back(&avx512bf16_kernels());
#endif
    return found;
  }();
  return tables;
}

bool passes_self_test(const Kernels& kernels) {
  gguf::RandomBits random(1);
  if (!floats_work(kernels, random)) return false;
  for (size_t i = 0; i < kernels.n_packed; i++) {
    if (!packed_format_works(kernels, kernels.packed[i], random)) return false;
  }
  return true;
}

const Kernels& choose_kernels(const char* wanted) {
  auto tables = available_kernels();
  if (wanted != nullptr && *wanted != '\0') {
    const auto found =
        std::ranges::find_if(tables, [&](const Kernels* k) { return std::string_view(wanted) == k->name; });
    if (found != tables.end()) {
      tables = tables.first(static_cast<size_t>(found - tables.begin()) + 1);
    } else {
      log(LogLevel::warn, "cpu: ROCMFORGE_CPU={} is unknown or not available here; using {}", wanted,
          tables.back()->name);
    }
  }
  for (; tables.size() > 1; tables = tables.first(tables.size() - 1)) {
    if (passes_self_test(*tables.back())) break;
    log(LogLevel::warn, "cpu: the {} kernels failed their self-test and are not used", tables.back()->name);
  }
  return *tables.back();
}

const Kernels& choose_kernels() {
  return choose_kernels(std::getenv("ROCMFORGE_CPU"));
}

}  // namespace rocmforge::cpu
