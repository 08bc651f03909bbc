// Attention over scattered pages: 18 rows of a sequence of 150 positions, in two chunks that two blocks share.

#include <cmath>
#include <cstdint>
#include <functional>

#include "gpu/kernels/attend.h"
#include "gpu/kernels/attend_matrix.h"
#include "gpu/kernels/attend_tiles.h"
#include "gpu/self_test_bench.h"

namespace rocmforge::gpu {
namespace {

constexpr uint32_t kHeads = 4, kKvHeads = 2, kHeadSize = 64, kWidth = kKvHeads * kHeadSize;
constexpr uint32_t kPositions = 150, kRows = 18, kFirst = kPositions - kRows;
constexpr uint32_t kPages[] = {2, 0, 1};

// Multiples of 2^-7 in [-1, 1): halves hold them.
std::vector<float> elements(size_t n, uint32_t seed) {
  std::vector<float> out(n);
  for (float& v : out) {
    seed = seed * 1664525u + 1013904223u;
    v = static_cast<float>(static_cast<int>(seed >> 24) - 128) / 128.0f;
  }
  return out;
}

struct Prepared {
  AttendArgs args{};
  std::vector<float> expected;
};

std::vector<float> expected_of(std::span<const float> q, std::span<const float> keys, std::span<const float> values,
                               float scale) {
  std::vector<float> out;
  std::vector<double> weights(kPositions);
  for (uint32_t row = 0; row < kRows; row++) {
    for (uint32_t head = 0; head < kHeads; head++) {
      const float* query = &q[(row * kHeads + head) * kHeadSize];
      const uint32_t offset = head / (kHeads / kKvHeads) * kHeadSize, n_seen = kFirst + row + 1;
      double total = 0;
      for (uint32_t p = 0; p < n_seen; p++) {
        double score = 0;
        for (uint32_t d = 0; d < kHeadSize; d++) score += double{query[d]} * keys[p * kWidth + offset + d];
        total += weights[p] = std::exp(score * scale);
      }
      for (uint32_t d = 0; d < kHeadSize; d++) {
        double sum = 0;
        for (uint32_t p = 0; p < n_seen; p++) sum += weights[p] * values[p * kWidth + offset + d];
        out.push_back(static_cast<float>(sum / total));
      }
    }
  }
  return out;
}

// Keys and values are stored by the device's own kernel.
Result<Prepared> prepare(SelfTestBench& bench, const char* store_kernel, uint32_t element_bytes) {
  const auto keys = elements(size_t{kPositions} * kWidth, 5), values = elements(size_t{kPositions} * kWidth, 6);
  const auto q = elements(size_t{kRows} * kHeads * kHeadSize, 7);
  std::vector<uint32_t> positions(kPositions);
  for (uint32_t p = 0; p < kPositions; p++) positions[p] = p;
  std::vector<RowPlace> by_position;
  for (uint32_t row = kRows; row-- > 0;) by_position.push_back({row, kFirst + row, 0, kRows});

  BatchView batch{};
  batch.positions = TRY(bench.put(positions));
  batch.first_page = TRY(bench.zeros<uint32_t>(kPositions));
  batch.pages = TRY(bench.put(std::span<const uint32_t>(kPages)));
  auto* cache = TRY(bench.zeros<uint8_t>(std::size(kPages) * 2 * kPagePositions * kWidth * element_bytes));
  const StoreKvArgs store{cache, TRY(bench.put(keys)), TRY(bench.put(values)), batch, kWidth, kWidth};
  TRY(bench.run("attend", store_kernel, store_kv_grid(kPositions, store), kStoreKvThreads, store));

  Prepared out;
  out.args.q = TRY(bench.put(q));
  out.args.cache = cache;
  out.args.batch = batch;
  out.args.batch.positions = TRY(bench.put(std::span<const uint32_t>(positions).subspan(kFirst)));
  out.args.batch.first_row = TRY(bench.zeros<uint32_t>(kRows));
  out.args.batch.n_together = TRY(bench.put(std::vector<uint32_t>(kRows, kRows)));
  out.args.batch.by_position = TRY(bench.put(by_position));
  out.args.n_heads = kHeads;
  out.args.n_kv_heads = kKvHeads;
  out.args.head_size = out.args.value_size = kHeadSize;
  out.args.scale = 1 / std::sqrt(float{kHeadSize});
  out.args.n_blocks = 2;
  const size_t n_parts = size_t{kRows} * kHeads * kMaxChunks;
  out.args.parts = TRY(bench.zeros<float>(n_parts * attend_part_floats(kHeadSize)));
  out.args.tops = TRY(bench.zeros<float>(n_parts * 2));
  out.args.arrivals = TRY(bench.zeros<uint32_t>(kRows * kHeads));
  out.expected = expected_of(q, keys, values, out.args.scale);
  return out;
}

Result<void> attend(SelfTestBench& bench, const Prepared& with, float tolerance,
                    const std::function<Result<void>(const AttendArgs&)>& run) {
  AttendArgs args = with.args;
  args.out = TRY(bench.zeros<float>(with.expected.size()));
  TRY(run(args));
  return bench.compare(TRY(bench.read(args.out, with.expected.size())), with.expected, tolerance, kHeads * kHeadSize);
}

// Weights of the softmax are halves beside a cache of halves.
constexpr float kOfHalves = 2e-3f, kOfFloats = 1e-5f;

}  // namespace

Result<void> try_attention_by_row(SelfTestBench& bench) {
  const Prepared halves = TRY(prepare(bench, "store_kv_f16", 2)), floats = TRY(prepare(bench, "store_kv_f32", 4));
  const auto by = [&](const char* kernel) {
    return [&bench, kernel](const AttendArgs& args) {
      return bench.run("attend", kernel, attend_grid(kRows, args), kAttendThreads, args);
    };
  };
  TRY(attend(bench, halves, kOfHalves, by("attend_f16_64")));
  return attend(bench, floats, kOfFloats, by("attend_f32_64"));
}

Result<void> try_attention_by_matrix(SelfTestBench& bench) {
  const Prepared halves = TRY(prepare(bench, "store_kv_f16", 2));
  TRY(attend(bench, halves, kOfHalves, [&](AttendArgs args) {
    args.min_tiled_rows = kMinTiledRows;
    return bench.run("attend_tiles", "attend_tiles_64", attend_tiles_grid(kRows, kHeads, bench.device().wave()),
                     kAttendTilesThreads, AttendTilesArgs{args, kRows});
  }));
  if (!bench.device().has_mma()) return {};
  return attend(bench, halves, kOfHalves, [&](const AttendArgs& args) {
    return bench.run("attend_matrix", "attend_matrix_64", attend_grid(kRows, args, kMatrixHeads), kAttendThreads, args);
  });
}

}  // namespace rocmforge::gpu
