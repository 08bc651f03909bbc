// Kernels of the CPU, one thread: GB/s of weights read, and multiply-adds per second.
//   cpu_bench --benchmark_filter=avx2/q4_k

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "cpu/isa/choose.h"
#include "cpu/memory.h"
#include "cpu/weight.h"
#include "gguf/random_blocks.h"
#include "tensor/packed.h"

namespace rocmforge::cpu {
namespace {

constexpr size_t kWidth = 2048;

// Weights of the type, as many rows as make n_bytes, packed if the kernels want them so; memory as models have it.
Memory make_rows(const PackedFormat* format, DType dtype, size_t n_bytes) {
  const DTypeInfo& info = dtype_info(dtype);
  const size_t row_bytes = kWidth / info.block_elements * info.block_bytes;
  gguf::RandomBits random(1);
  const auto unit = gguf::random_blocks(dtype, kMaxPackedRows * kWidth / info.block_elements, random);
  const size_t n_units = n_bytes / unit.size();
  Memory rows = Memory::allocate(n_units * unit.size(), available_memory(), "weights").value();
  for (size_t at = 0; at < n_units * unit.size(); at += unit.size()) {
    if (format != nullptr) {
      for (size_t r = 0; r < kMaxPackedRows; r += format->n_rows) {
        format->pack(rows.data() + at + r * row_bytes, unit.data() + r * row_bytes, kWidth / packed_elements(dtype));
      }
    } else {
      std::copy(unit.begin(), unit.end(), rows.data() + at);
    }
  }
  return rows;
}

void report(benchmark::State& state, size_t weight_bytes, size_t n_products) {
  const auto runs = static_cast<double>(state.iterations());
  state.counters["GB/s"] =
      benchmark::Counter(runs * static_cast<double>(weight_bytes) / 1e9, benchmark::Counter::kIsRate);
  state.counters["GMAC/s"] =
      benchmark::Counter(runs * static_cast<double>(n_products) / 1e9, benchmark::Counter::kIsRate);
}

// `n_bytes` of weights: small ones stay in the cache (the kernel's own speed), large ones come from memory.
void packed_matmul(benchmark::State& state, const Kernels* kernels, const PackedFormat* format, size_t n_tokens,
                   size_t n_bytes) {
  const auto dtype = static_cast<DType>(format->dtype);
  const auto rows = make_rows(format, dtype, n_bytes);
  const size_t n_groups = kWidth / packed_elements(dtype);
  const size_t n_units = rows.size() / (n_groups * packed_cut(dtype)->group_bytes(format->n_rows));
  const size_t n_rows = n_units * format->n_rows;
  gguf::RandomBits random(2);
  std::vector<float> values(n_tokens * kWidth), products(n_tokens * n_rows);
  for (float& value : values) value = random.normal();
  std::vector<QuantBlock> blocks(values.size() / kQuantElements);
  kernels->quantize(blocks.data(), values.data(), blocks.size());
  std::vector<uint16_t> halves(values.size());
  kernels->to_bf16(halves.data(), values.data(), values.size());
  std::vector<const void*> in;
  std::vector<float*> out;
  for (size_t t = 0; t < n_tokens; t++) {
    switch (format->input) {
      case InputForm::floats:
        in.push_back(&values[t * kWidth]);
        break;
      case InputForm::bf16:
        in.push_back(&halves[t * kWidth]);
        break;
      case InputForm::blocks:
        in.push_back(&blocks[t * kWidth / kQuantElements]);
        break;
    }
    out.push_back(products.data() + t * n_rows);
  }
  for (auto _ : state) format->matmul({rows.data(), n_units, n_groups}, {in.data(), out.data(), n_tokens, 0});
  report(state, rows.size(), n_rows * kWidth * n_tokens);
}

void float_matmul(benchmark::State& state, FloatMatmul matmul, DType dtype, size_t n_tokens, size_t n_bytes) {
  const auto rows = make_rows(nullptr, dtype, n_bytes);
  const size_t row_bytes = kWidth * dtype_info(dtype).block_bytes;
  const size_t n_rows = rows.size() / row_bytes;
  std::vector<float> values(n_tokens * kWidth, 0.5f), products(n_tokens * n_rows);
  std::vector<const float*> in;
  std::vector<float*> out;
  for (size_t t = 0; t < n_tokens; t++) {
    in.push_back(values.data() + t * kWidth);
    out.push_back(products.data() + t * n_rows);
  }
  for (auto _ : state) matmul({rows.data(), row_bytes, n_rows, kWidth}, {in.data(), out.data(), n_tokens, 0});
  report(state, rows.size(), n_rows * kWidth * n_tokens);
}

void pack(benchmark::State& state, const PackedFormat* format) {
  const auto dtype = static_cast<DType>(format->dtype);
  const auto rows = make_rows(nullptr, dtype, 64 << 10);
  const size_t n_groups = kWidth / packed_elements(dtype);
  const size_t unit_bytes = n_groups * packed_cut(dtype)->group_bytes(format->n_rows);
  std::vector<std::byte> to(rows.size());
  for (auto _ : state) {
    for (size_t at = 0; at + unit_bytes <= rows.size(); at += unit_bytes)
      format->pack(to.data() + at, rows.data() + at, n_groups);
  }
  report(state, rows.size(), 0);
}

void quantize(benchmark::State& state, const Kernels* kernels) {
  std::vector<float> values(kWidth, 0.7f);
  std::vector<QuantBlock> blocks(kWidth / kQuantElements);
  for (auto _ : state) {
    kernels->quantize(blocks.data(), values.data(), blocks.size());
    benchmark::ClobberMemory();
  }
  report(state, values.size() * sizeof(float), 0);
}

void silu(benchmark::State& state, const Kernels* kernels) {
  std::vector<float> a(kWidth, 0.7f), b(kWidth, 0.3f), out(kWidth);
  for (auto _ : state) {
    kernels->silu_multiply(out.data(), a.data(), b.data(), kWidth);
    benchmark::ClobberMemory();
  }
  report(state, 2 * a.size() * sizeof(float), 0);
}

// One query against a page of 64 positions: scores, softmax, weighted sum.
void attend_page(benchmark::State& state, const Kernels* kernels, size_t n_queries) {
  constexpr size_t kHeadSize = 128, kPositions = 64;
  std::vector<uint16_t> keys(kPositions * kHeadSize, 0x2E66), values(keys);
  std::vector<float> q(n_queries * kHeadSize, 0.1f), out(q.size()), scores(n_queries * kPositions),
      keep(n_queries, 1.0f);
  std::vector<const float*> q_rows, score_in;
  std::vector<float*> out_rows, score_out;
  for (size_t i = 0; i < n_queries; i++) {
    q_rows.push_back(&q[i * kHeadSize]);
    out_rows.push_back(&out[i * kHeadSize]);
    score_out.push_back(&scores[i * kPositions]);
    score_in.push_back(&scores[i * kPositions]);
  }
  for (auto _ : state) {
    kernels->weighted_sum_f16({keys.data(), kPositions * 2, kHeadSize, kPositions},
                              {q_rows.data(), score_out.data(), n_queries, 0}, nullptr, nullptr);
    for (size_t i = 0; i < n_queries; i++) {
      RunningSoftmax softmax = {0.0f, 0.0f};
      keep[i] = kernels->add_scores(softmax, score_out[i], kPositions, 0.1f);
    }
    kernels->weighted_sum_f16({values.data(), kHeadSize * 2, kPositions, kHeadSize},
                              {score_in.data(), out_rows.data(), n_queries, 0}, keep.data(), nullptr);
  }
  report(state, (keys.size() + values.size()) * 2, 2 * n_queries * kPositions * kHeadSize);
}

void register_all() {
  constexpr size_t kCached = 256 << 10, kFromMemory = 128 << 20;
  const auto add = [](const std::string& name, auto&& body) { benchmark::RegisterBenchmark(name.c_str(), body); };
  for (const Kernels* kernels : available_kernels()) {
    const std::string isa = kernels->name;
    for (size_t i = 0; i < kernels->n_packed; i++) {
      const PackedFormat* format = &kernels->packed[i];
      const std::string type = isa + "/" + std::string(dtype_info(static_cast<DType>(format->dtype)).name);
      for (const size_t n : {1, 2, 4, 8, 32}) {
        add(type + "/tokens:" + std::to_string(n),
            [=](benchmark::State& state) { packed_matmul(state, kernels, format, n, kCached); });
      }
      add(type + "/from_memory",
          [=](benchmark::State& state) { packed_matmul(state, kernels, format, 1, kFromMemory); });
      for (const size_t n : {4, 8, 64}) {
        add(type + "/from_memory/tokens:" + std::to_string(n),
            [=](benchmark::State& state) { packed_matmul(state, kernels, format, n, kFromMemory); });
      }
      add(type + "/pack", [=](benchmark::State& state) { pack(state, format); });
    }
    struct Plain {
      const char* name;
      FloatMatmul matmul;
      DType dtype;
    };
    for (const Plain& plain :
         {Plain{"f32", kernels->matmul_f32, DType::f32}, Plain{"f16", kernels->matmul_f16, DType::f16},
          Plain{"bf16", kernels->matmul_bf16, DType::bf16}}) {
      for (const size_t n : {1, 32}) {
        add(isa + "/rows_" + plain.name + "/tokens:" + std::to_string(n),
            [=](benchmark::State& state) { float_matmul(state, plain.matmul, plain.dtype, n, kCached); });
      }
    }
    add(isa + "/quantize", [=](benchmark::State& state) { quantize(state, kernels); });
    add(isa + "/silu", [=](benchmark::State& state) { silu(state, kernels); });
    for (const size_t n : {1, 16}) {
      add(isa + "/attend_page/queries:" + std::to_string(n),
          [=](benchmark::State& state) { attend_page(state, kernels, n); });
    }
  }
}

}  // namespace
}  // namespace rocmforge::cpu

int main(int argc, char** argv) {
  rocmforge::cpu::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
