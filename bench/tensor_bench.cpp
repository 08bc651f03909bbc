// Decoding rows of every weight type to f32. bytes_per_second counts the floats written; the target for Q4_K and Q8_0
// is 1 GB/s per core.
//
//   build/release/bench/tensor_bench [--benchmark_filter=q4_k]

#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "tensor/codec.h"

namespace {

using rocmforge::DTypeInfo;

// A row as wide as a model's, so that it stays in the second-level cache: the decoder's speed, not the memory's.
constexpr size_t kElements = 16384;

void decode_row(benchmark::State& state, const DTypeInfo& info) {
  std::vector<std::byte> blocks(kElements / info.block_elements * info.block_bytes);
  std::mt19937 rng(1);
  for (std::byte& byte : blocks) byte = static_cast<std::byte>(rng());
  std::vector<float> decoded(kElements);
  for (auto _ : state) {
    rocmforge::decode(decoded, info.dtype, blocks);
    benchmark::DoNotOptimize(decoded.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kElements * sizeof(float)));
}

}  // namespace

int main(int argc, char** argv) {
  for (const DTypeInfo& info : rocmforge::all_dtypes()) {
    if (info.use != rocmforge::DTypeUse::weight) continue;
    benchmark::RegisterBenchmark(("decode/" + std::string(info.name)).c_str(),
                                 [&info](benchmark::State& state) { decode_row(state, info); });
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
