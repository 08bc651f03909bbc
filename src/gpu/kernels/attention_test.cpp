// Attention over a paged cache, row by row and in tiles.

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "gpu/kernels/attend.h"
#include "gpu/kernels/attend_any.h"
#include "gpu/kernels/attend_hopper.h"
#include "gpu/kernels/attend_matrix.h"
#include "gpu/kernels/attend_rows_hopper.h"
#include "gpu/kernels/attend_tiles.h"
#include "plan/step.h"
#include "support/kernel_device.h"

namespace rocmforge::gpu {
namespace {

using testing::KernelTest;
using testing::nmse;
using testing::OnDevice;

struct AttentionCase {
  uint32_t head_size, n_heads, n_kv_heads;
  uint32_t window = 0;
  float softcap = 0;
  bool has_sinks = false;
  bool has_large_queries = false;  // that halves cannot hold, of some rows and heads; keys are small then
  bool has_one_large_key = false;  // position 0: weight 1, value 0; all others e^-10, a subnormal half, and 1
  uint32_t value_size = 0;         // 0: head_size
  uint32_t chunk = 0;
  float alibi_bias = 0;

  uint32_t value_head() const { return value_size != 0 ? value_size : head_size; }
  uint32_t first_seen(uint32_t position) const {
    const uint32_t of_window = window != 0 && window <= position ? position + 1 - window : 0;
    return chunk != 0 ? std::max(of_window, position / chunk * chunk) : of_window;
  }
};

bool is_large(size_t row, size_t head) {
  return (row + head) % 3 == 0;
}
constexpr float kLargeQuery = 0x1p20f, kSmallKey = 0x1p-20f;

class AnyAttention : public KernelTest {
 protected:
  std::vector<float> with_large_queries(std::vector<float> q, const AttentionCase& c) const {
    for (size_t i = 0; i < q.size(); i++) {
      const size_t head = i / c.head_size;
      if (is_large(head / c.n_heads, head % c.n_heads)) q[i] *= kLargeQuery;
    }
    return q;
  }
  // Heads whose queries are not large have the bits they have without the others.
  void expect_others_unchanged(const std::vector<float>& got, const std::vector<float>& without,
                               const AttentionCase& c) const {
    for (size_t i = 0; i < got.size(); i++) {
      const size_t head = i / c.head_size;
      if (is_large(head / c.n_heads, head % c.n_heads)) continue;
      ASSERT_EQ(got[i], without[i]) << "row " << head / c.n_heads << ", head " << head % c.n_heads;
    }
  }

  // Hopper's kernel for many rows gives the same bits.
  void check_rows(AttendArgs args, uint32_t n_rows, uint32_t size, size_t n) {
    if (!device_->has_hopper()) return;
    const std::vector<float> untouched(n, 7.0f);  // rows that are not theirs
    const auto one_by_one = put(untouched), together = put(untouched);
    args.out = one_by_one.data();
    run("attend_matrix", "attend_matrix_" + std::to_string(size), attend_grid(n_rows, args, kMatrixHeads),
        kAttendThreads, args);
    args.out = together.data();
    const AttendRowsArgs rows{args, n_rows, attend_head_blocks(args, kMatrixHeads)};
    run("attend_rows_hopper", "attend_rows_" + std::to_string(size),
        {attend_rows_grid(rows), kAttendThreads, attend_rows_shared_bytes(size)}, rows);
    EXPECT_EQ(together.values(), one_by_one.values()) << "heads of " << args.head_size;
  }
};

class Attention : public AnyAttention {
 protected:
  // Two sequences with scattered pages: one row at the position 600, three rows at 62 .. 64.
  template <class T>
  void check(const char* type, const AttentionCase& c) {
    const std::vector<uint32_t> positions = {600, 62, 63, 64};
    const std::vector<uint32_t> first_page = {0, 10, 10, 10}, pages = {4, 1, 3, 9, 8, 7, 6, 5, 11, 10, 2, 0};
    const std::vector<uint32_t> sequence_length = {601, 65};
    const uint32_t width = c.n_kv_heads * c.head_size, value_width = c.n_kv_heads * c.value_head();
    const auto n_rows = static_cast<uint32_t>(positions.size());
    std::vector<std::vector<float>> keys, values;  // by sequence
    for (size_t s = 0; s < 2; s++) {
      keys.push_back(noise(sequence_length[s] * width, c.has_large_queries ? kSmallKey : 1.0f));
      if (c.has_large_queries) {  // subnormal halves
        for (float& k : keys.back()) k = to_float(to_f16(k));
      }
      values.push_back(noise(sequence_length[s] * value_width));
    }
    const auto on_pages = put(pages);
    const auto on_first = put(first_page);
    const OnDevice<T> on_cache(*device_, pages.size() * kPagePositions * (width + value_width));
    for (uint32_t s = 0; s < 2; s++) {
      const uint32_t n = sequence_length[s];
      std::vector<uint32_t> all(n);
      std::iota(all.begin(), all.end(), 0u);
      const auto k = put(keys[s]), v = put(values[s]);
      const auto at = put(all);
      const auto first = put(std::vector<uint32_t>(n, first_page[s]));
      const StoreKvArgs store{on_cache.data(),
                              k.data(),
                              v.data(),
                              {.tokens = nullptr,
                               .positions = at.data(),
                               .first_page = first.data(),
                               .pages = on_pages.data(),
                               .output_rows = nullptr,
                               .poolings = nullptr,
                               .first_row = nullptr,
                               .n_together = nullptr,
                               .by_position = nullptr},
                              width,
                              value_width};
      run("attend", std::string("store_kv_") + type, store_kv_grid(n, store), kStoreKvThreads, store);
    }
    const auto plain_q = noise(n_rows * c.n_heads * c.head_size), sinks = noise(c.n_heads, 3.0f);
    const auto q = c.has_large_queries ? with_large_queries(plain_q, c) : plain_q;
    const auto on_q = put(q), on_plain_q = put(plain_q), on_sinks = put(sinks);
    const auto on_positions = put(positions), on_together = put(std::vector<uint32_t>{1, 3, 3, 3});
    const auto by_position = put(std::vector<RowPlace>{{0, 600, 0, 1}, {3, 64, 10, 3}, {2, 63, 10, 3}, {1, 62, 10, 3}});
    const size_t n_parts = size_t{n_rows} * c.n_heads * kMaxChunks;
    const auto parts = space(n_parts * attend_part_floats(c.value_head())), tops = space(n_parts * 2);
    const AttendArgs args{.out = nullptr,
                          .q = on_q.data(),
                          .cache = on_cache.data(),
                          .sinks = c.has_sinks ? on_sinks.data() : nullptr,
                          .batch = {nullptr, on_positions.data(), on_first.data(), on_pages.data(), nullptr, nullptr,
                                    nullptr, on_together.data(), by_position.data()},
                          .n_heads = c.n_heads,
                          .n_kv_heads = c.n_kv_heads,
                          .head_size = c.head_size,
                          .value_size = c.value_head(),
                          .window = c.window,
                          .scale = 1 / std::sqrt(static_cast<float>(c.head_size)),
                          .softcap = c.softcap,
                          .chunk = c.chunk,
                          .alibi_bias = c.alibi_bias,
                          .parts = parts.data(),
                          .tops = tops.data()};
    const uint32_t size = c.head_size <= 64 ? 64 : c.head_size <= 128 ? 128 : 256;
    std::vector<float> expected(size_t{n_rows} * c.n_heads * c.value_head());
    for (size_t r = 0; r < n_rows; r++) {
      const size_t s = r == 0 ? 0 : 1, n_positions = positions[r] + 1;
      const size_t begin = c.first_seen(positions[r]);
      for (size_t h = 0; h < c.n_heads; h++) {
        const size_t kv_head = h / (c.n_heads / c.n_kv_heads), offset = kv_head * c.head_size;
        const float slope = alibi_slope(c.alibi_bias, c.n_heads, static_cast<uint32_t>(h));
        const size_t query = (r * c.n_heads + h) * c.head_size;
        std::vector<double> weights(n_positions);
        double total = c.has_sinks ? std::exp(double{sinks[h]}) : 0;
        for (size_t p = begin; p < n_positions; p++) {
          double score = 0;
          for (size_t d = 0; d < c.head_size; d++) score += double{q[query + d]} * keys[s][p * width + offset + d];
          score *= args.scale;
          if (c.softcap != 0) score = c.softcap * std::tanh(score / c.softcap);
          if (c.alibi_bias != 0) score -= slope * static_cast<double>(positions[r] - p);
          weights[p] = std::exp(score);
          total += weights[p];
        }
        for (size_t d = 0; d < c.value_head(); d++) {
          double sum = 0;
          for (size_t p = begin; p < n_positions; p++) {
            sum += weights[p] * values[s][p * value_width + kv_head * c.value_head() + d];
          }
          expected[(r * c.n_heads + h) * c.value_head() + d] = static_cast<float>(sum / total);
        }
      }
    }
    const double most = sizeof(T) == 4 ? 1e-11 : 1e-6;
    const uint32_t any_size = attend_any_size(args);
    run_all(std::string("attend_any_") + type + "_" + std::to_string(any_size), args, n_rows,
            attend_any_heads(any_size), expected, most);
    if (needs_attend_any(args)) return;
    run_all(std::string("attend_") + type + "_" + std::to_string(size), args, n_rows, kAttendHeads, expected, most);
    if (sizeof(T) == 2 && device_->has_mma() && has_attend_matrix(c.head_size)) {
      const std::string kernel = "attend_matrix_" + std::to_string(size);
      const auto got = run_all(kernel, args, n_rows, kMatrixHeads, expected, 1e-6);
      if (c.has_large_queries) {
        AttendArgs plain = args;
        plain.q = on_plain_q.data();
        expect_others_unchanged(got, run_all(kernel, plain, n_rows, kMatrixHeads, {}, 0), c);
      }
      if (size <= 128) check_rows(args, n_rows, size, expected.size());
    }
  }

  // One block for all chunks of a row, one for some, and more than any row has chunks, as in a graph.
  // Nothing expected: what it gives is not compared.
  std::vector<float> run_all(const std::string& kernel, AttendArgs args, uint32_t n_rows, uint32_t heads_of_block,
                             const std::vector<float>& expected, double most) {
    const auto arrivals = put(std::vector<uint32_t>(n_rows * args.n_heads, 0));
    args.arrivals = arrivals.data();
    std::vector<float> got;
    for (const uint32_t n_blocks : {1u, 3u, 40u}) {
      const auto out = space(size_t{n_rows} * args.n_heads * args.value_size);
      args.out = out.data();
      args.n_blocks = n_blocks;
      run(kernel.starts_with("attend_matrix") ? "attend_matrix"
          : kernel.starts_with("attend_any")  ? "attend_any"
                                              : "attend",
          kernel, attend_grid(n_rows, args, heads_of_block), kAttendThreads, args);
      if (n_blocks == 1) got = out.values();
      EXPECT_EQ(out.values(), got) << n_blocks << " blocks";
      EXPECT_EQ(arrivals.values(), std::vector<uint32_t>(n_rows * args.n_heads, 0));
    }
    if (!expected.empty()) {
      EXPECT_LE(nmse(got, expected), most) << kernel << ", heads of " << args.head_size;
    }
    return got;
  }
};

TEST_P(Attention, OverPagesForEveryHeadSize) {
  for (const uint32_t head_size : {9u, 16u, 32u, 64u, 80u, 96u, 128u, 256u}) {
    check<float>("f32", {head_size, 4, 2});
    check<F16>("f16", {head_size, 2, 1});
  }
}

TEST_P(Attention, ForEveryGroup) {
  for (const uint32_t group : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 12u}) {
    check<F16>("f16", {.head_size = 64, .n_heads = 2 * group, .n_kv_heads = 2});
  }
  check<float>("f32", {.head_size = 24, .n_heads = 5, .n_kv_heads = 1});
}

TEST_P(Attention, WithWindowsCapsAndSinks) {
  check<float>("f32", {48, 2, 1, 40, 0, false});
  check<float>("f32", {48, 2, 1, 300, 2, false});
  check<F16>("f16", {64, 2, 2, 0, 0, true});
  check<F16>("f16", {64, 6, 2, 129, 0, true});
  check<float>("f32", {96, 2, 1, 64, 5, true});
  check<F16>("f16", {128, 1, 1, 1, 0, false});
}

TEST_P(Attention, InChunks) {
  check<float>("f32", {.head_size = 48, .n_heads = 2, .n_kv_heads = 1, .chunk = 64});
  check<F16>("f16", {.head_size = 64, .n_heads = 4, .n_kv_heads = 2, .chunk = 512});
  check<F16>("f16", {.head_size = 128, .n_heads = 2, .n_kv_heads = 1, .window = 40, .chunk = 100});
}

TEST_P(Attention, OfWideHeads) {
  for (const uint32_t head_size : {260u, 320u, 510u, 512u}) {
    check<float>("f32", {head_size, 3, 1});
    check<F16>("f16", {head_size, 2, 1, 300});
  }
  check<F16>("f16", {512, 8, 2, 0, 3, true});
}

TEST_P(Attention, OfKeysAndValuesOfDifferentSize) {
  check<float>("f32", {.head_size = 32, .n_heads = 4, .n_kv_heads = 2, .has_sinks = true, .value_size = 16});
  check<float>("f32", {.head_size = 9, .n_heads = 2, .n_kv_heads = 1, .value_size = 5});
  check<F16>("f16", {.head_size = 16, .n_heads = 6, .n_kv_heads = 2, .window = 129, .value_size = 40});
  check<F16>("f16", {.head_size = 192, .n_heads = 8, .n_kv_heads = 1, .value_size = 128});
  check<F16>("f16", {.head_size = 128, .n_heads = 2, .n_kv_heads = 1, .value_size = 512});
  check<float>("f32", {.head_size = 576, .n_heads = 5, .n_kv_heads = 1, .value_size = 512});
  check<F16>("f16", {.head_size = 576, .n_heads = 16, .n_kv_heads = 1, .value_size = 512});
}

TEST_P(Attention, WithAlibi) {
  for (const uint32_t n_heads : {1u, 6u, 8u, 12u}) {
    check<float>("f32", {.head_size = 24, .n_heads = n_heads, .n_kv_heads = n_heads, .alibi_bias = 8});
  }
  check<F16>("f16", {.head_size = 128, .n_heads = 40, .n_kv_heads = 40, .alibi_bias = 8});
  check<F16>("f16", {.head_size = 64, .n_heads = 6, .n_kv_heads = 1, .window = 200, .alibi_bias = 3});
  check<F16>("f16", {.head_size = 200, .n_heads = 4, .n_kv_heads = 2, .has_sinks = true, .alibi_bias = 8});
}

TEST_P(Attention, OfQueriesBeyondHalfPrecision) {
  for (const uint32_t head_size : {64u, 96u, 256u}) {
    check<F16>("f16", {.head_size = head_size, .n_heads = 3, .n_kv_heads = 1, .has_large_queries = true});
  }
  check<F16>("f16", {.head_size = 64, .n_heads = 2, .n_kv_heads = 1, .softcap = 3, .has_large_queries = true});
}

INSTANTIATE_TEST_SUITE_P(, Attention, testing::both_waves());

// Three sequences whose rows lie in two tiles and more; tiles and the kernel for single rows share them out, and give
// what the latter gives alone.
class AttentionTiles : public AnyAttention {
 protected:
  static void put_one_large_key(std::vector<F16>& cache, size_t page, const AttentionCase& c) {
    const size_t width = size_t{c.n_kv_heads} * c.head_size, key = page * 2 * kPagePositions * width;
    for (size_t head = 0; head < c.n_kv_heads; head++) cache[key + head * c.head_size] = to_f16(10.0f);
    std::fill_n(cache.begin() + static_cast<ptrdiff_t>(key + kPagePositions * width), width, to_f16(0.0f));
  }
  void check(const AttentionCase& c) {
    struct Sequence {
      uint32_t first_position, n_rows, first_page;
    };
    const std::vector<Sequence> sequences = {{0, 70, 0}, {130, 1, 2}, {50, 17, 5}, {7, 3, 7}, {200, 66, 8}};
    std::vector<uint32_t> pages(13);
    std::iota(pages.rbegin(), pages.rend(), 0u);
    const uint32_t width = c.n_kv_heads * c.head_size;
    std::vector<F16> cache(pages.size() * 2 * kPagePositions * width);
    for (size_t i = 0; i < cache.size(); i++) {
      const bool is_key = i / (size_t{kPagePositions} * width) % 2 == 0;
      const float plain = noise(1, c.has_large_queries && is_key ? kSmallKey : 1.0f)[0];
      cache[i] = to_f16(!c.has_one_large_key ? plain : is_key ? 0.0f : 1.0f);
    }
    if (c.has_one_large_key) {
      for (const Sequence& s : sequences) put_one_large_key(cache, pages[s.first_page], c);
    }
    std::vector<uint32_t> positions, first_page, first_row, n_together;
    for (const Sequence& s : sequences) {
      const auto first = static_cast<uint32_t>(positions.size());
      for (uint32_t i = 0; i < s.n_rows; i++) {
        positions.push_back(s.first_position + i);
        first_page.push_back(s.first_page);
        first_row.push_back(first);
        n_together.push_back(s.n_rows);
      }
      // What lies behind a sequence's last position was never stored.
      for (uint32_t p = s.first_position + s.n_rows; p % kPagePositions != 0; p++) {
        const size_t page = pages[s.first_page + p / kPagePositions];
        for (const size_t half : {0, 1}) {
          const size_t row = (page * 2 + half) * kPagePositions + p % kPagePositions;
          std::fill_n(cache.begin() + static_cast<ptrdiff_t>(row * width), width, F16{0x7E00});
        }
      }
    }
    const auto n_rows = static_cast<uint32_t>(positions.size());
    auto plain_q = noise(size_t{n_rows} * c.n_heads * c.head_size, 2.0f);
    if (c.has_one_large_key) {
      for (size_t i = 0; i < plain_q.size(); i++)
        plain_q[i] = i % c.head_size == 0 ? std::sqrt(static_cast<float>(c.head_size)) : 0.0f;
    }
    const auto sinks = noise(c.n_heads, 3.0f);
    const auto q = c.has_large_queries ? with_large_queries(plain_q, c) : plain_q;
    const auto on_cache = put(cache);
    const auto on_q = put(q), on_plain_q = put(plain_q), on_sinks = put(sinks);
    const auto on_positions = put(positions), on_first = put(first_page), on_row = put(first_row),
               on_together = put(n_together), on_pages = put(pages);
    std::vector<RowPlace> by_position;
    for (uint32_t r = 0; r < n_rows; r++) by_position.push_back({r, positions[r], first_page[r], n_together[r]});
    std::ranges::sort(by_position, std::greater(), &RowPlace::position);
    const auto on_by_position = put(by_position);
    const auto out = space(q.size()), expected = space(q.size());
    const size_t n_parts = size_t{n_rows} * c.n_heads * kMaxChunks;
    const auto parts = space(n_parts * attend_part_floats(c.head_size)), tops = space(n_parts * 2);
    const std::string alibi = c.alibi_bias != 0 ? "alibi_" : "";
    AttendArgs args{.out = expected.data(),
                    .q = on_q.data(),
                    .cache = on_cache.data(),
                    .sinks = c.has_sinks ? on_sinks.data() : nullptr,
                    .batch = {.tokens = nullptr,
                              .positions = on_positions.data(),
                              .first_page = on_first.data(),
                              .pages = on_pages.data(),
                              .output_rows = nullptr,
                              .poolings = nullptr,
                              .first_row = on_row.data(),
                              .n_together = on_together.data(),
                              .by_position = on_by_position.data()},
                    .n_heads = c.n_heads,
                    .n_kv_heads = c.n_kv_heads,
                    .head_size = c.head_size,
                    .value_size = c.head_size,
                    .window = c.window,
                    .scale = 1 / std::sqrt(static_cast<float>(c.head_size)),
                    .softcap = c.softcap,
                    .chunk = c.chunk,
                    .alibi_bias = c.alibi_bias,
                    .parts = parts.data(),
                    .tops = tops.data()};
    const std::string size = c.head_size <= 64 ? "64" : "128";
    const char* rows_file = alibi.empty() ? "attend" : "attend_any";
    const std::string rows_kernel = alibi.empty() ? "attend_f16_" + size : "attend_any_f16_128";
    run(rows_file, rows_kernel, attend_grid(n_rows, args), kAttendThreads, args);
    args.min_tiled_rows = kMinTiledRows;
    // Queries and weights are halves in tiles.
    const auto check_tiles = [&](const char* file, const std::string& kernel, const LaunchShape& shape) {
      const auto attend = [&](const float* queries) {
        args.q = queries;
        args.out = out.data();
        run(file, kernel, shape, AttendTilesArgs{args, n_rows});
        run(rows_file, rows_kernel, attend_grid(n_rows, args), kAttendThreads, args);
        return out.values();
      };
      const auto got = attend(on_q.data());
      EXPECT_LE(nmse(got, expected.values()), 1e-6) << kernel;
      if (!c.has_large_queries) return;
      expect_others_unchanged(got, attend(on_plain_q.data()), c);
      args.q = on_q.data();
    };
    check_tiles("attend_tiles", "attend_tiles_" + alibi + size,
                {attend_tiles_grid(n_rows, c.n_heads, device_->wave()), kAttendTilesThreads});
    if (!alibi.empty()) return;
    if (device_->has_hopper() && c.chunk == 0 && has_attend_hopper(c.head_size, c.softcap)) {
      check_tiles(
          "attend_hopper", "attend_hopper_" + size,
          {attend_hopper_grid(n_rows, c.n_heads), kAttendHopperThreads, attend_hopper_shared_bytes(c.head_size)});
    }
    for (const uint32_t min_tiled_rows : {0u, kMinTiledRows}) {
      args.min_tiled_rows = min_tiled_rows;
      check_rows(args, n_rows, c.head_size <= 64 ? 64 : 128, q.size());
    }
  }
};

TEST_P(AttentionTiles, EqualRowsByThemselves) {
  check({.head_size = 64, .n_heads = 16, .n_kv_heads = 2});
  check({.head_size = 128, .n_heads = 8, .n_kv_heads = 2, .window = 150});
  check({.head_size = 64, .n_heads = 2, .n_kv_heads = 1});
  check({.head_size = 128, .n_heads = 2, .n_kv_heads = 2, .window = 40});
  check({.head_size = 80, .n_heads = 1, .n_kv_heads = 1, .softcap = 2, .has_sinks = true});
  check({.head_size = 96, .n_heads = 4, .n_kv_heads = 2, .window = 100, .has_sinks = true});
}

TEST_P(AttentionTiles, InChunks) {
  check({.head_size = 64, .n_heads = 2, .n_kv_heads = 1, .chunk = 64});
  check({.head_size = 128, .n_heads = 2, .n_kv_heads = 1, .window = 100, .chunk = 90});
}

TEST_P(AttentionTiles, WithAlibi) {
  check({.head_size = 64, .n_heads = 6, .n_kv_heads = 6, .alibi_bias = 8});
  check({.head_size = 128, .n_heads = 3, .n_kv_heads = 1, .window = 100, .alibi_bias = 8});
}

TEST_P(AttentionTiles, AddUpManySmallWeights) {
  check({.head_size = 64, .n_heads = 2, .n_kv_heads = 1, .has_one_large_key = true});
  check({.head_size = 128, .n_heads = 1, .n_kv_heads = 1, .has_one_large_key = true});
}

TEST_P(AttentionTiles, OfQueriesBeyondHalfPrecision) {
  if (device_->name().starts_with("gfx90a")) GTEST_SKIP() << "gfx90a takes this test's subnormal keys for zeros";
  check({.head_size = 64, .n_heads = 2, .n_kv_heads = 1, .has_large_queries = true});
  check({.head_size = 96, .n_heads = 1, .n_kv_heads = 1, .window = 100, .has_sinks = true, .has_large_queries = true});
}

INSTANTIATE_TEST_SUITE_P(, AttentionTiles, testing::all_devices());

}  // namespace
}  // namespace rocmforge::gpu
