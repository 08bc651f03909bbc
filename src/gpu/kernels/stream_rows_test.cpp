// Streamed products of 17 to 128 rows against sums in f64. They run on Hopper alone.

#include "gpu/kernels/stream_rows_hopper.h"

#include "support/kernel_weights.h"

namespace rocmforge::gpu {
namespace {

using testing::nmse;

class StreamedRows : public Products {
 protected:
  void SetUp() override {
    Products::SetUp();
    if (device_ != nullptr && !device_->has_hopper()) GTEST_SKIP() << "this device has no wgmma";
  }

  static constexpr DType kFormats[] = {DType::q4_k, DType::q5_k, DType::q6_k};

  struct Given {
    const float* x;
    const float* norm_weight = nullptr;
    float* normed = nullptr;
    uint32_t at_once = 64;
    uint32_t n_shares = 0;  // 0: as many as there can be
  };
  OnDevice<uint8_t> inputs_of(const Given& given, DType dtype, uint32_t n_rows, uint32_t width) {
    const uint32_t n_scales = strip_shape(dtype).n_scales, place = rows_place_bytes(given.at_once, n_scales);
    const uint32_t n_sets = (n_rows + given.at_once - 1) / given.at_once;
    OnDevice<uint8_t> made(*device_, size_t{n_sets} * (width / kStreamColumns) * place);
    ManyInputsArgs inputs{.x = given.x,
                          .norm_weight = given.norm_weight,
                          .normed = given.normed,
                          .epsilon = 1e-5f,
                          .n_rows = n_rows,
                          .width = width,
                          .to = {.layout = ManyLayout::panels, .rows_at_once = given.at_once}};
    inputs.to.add(many_order(dtype), made.data(), place);
    run("stream_many_inputs", "stream_many_inputs", many_inputs_grid(inputs), kManyInputsThreads, inputs);
    return made;
  }
  void stream(const Given& given, RowsArgs args, DType dtype) {
    const auto made = inputs_of(given, dtype, args.n_rows, args.width);
    args.x = made.data();
    multiply(given, args, dtype);
  }
  // Of inputs that are there.
  void multiply(const Given& given, RowsArgs args, DType dtype) {
    uint32_t n_strips = 0;
    for (uint32_t p = 0; p < args.n_parts; p++) n_strips += args.parts[p].n_out / kStreamOutputs;
    args.n_tiles = rows_tiles(n_strips, given.at_once);
    const uint32_t most = rows_shares(args.n_tiles, args.width / kStreamColumns);
    args.n_shares = given.n_shares == 0 ? most : std::min(most, given.n_shares);
    // Fewer blocks than tiles where a width is not shared, so that a block has several of them.
    args.n_blocks = args.n_shares > 1 ? args.n_tiles * args.n_shares : (args.n_tiles + 1) / 2;
    const auto partial =
        space(size_t{rows_sets(args.n_rows, given.at_once)} * args.n_tiles * args.n_shares * kRowsTileSums);
    const std::vector<uint32_t> zeros(size_t{2} * args.n_tiles);
    const auto counters = put(zeros);
    args.partial = partial.data();
    args.counters = counters.data();
    run("stream_rows_hopper", "stream_rows_" + suffix(dtype) + "_" + std::to_string(given.at_once),
        {{args.n_blocks}, rows_threads(given.at_once), rows_shared_bytes(strip_shape(dtype), given.at_once)}, args);
    EXPECT_EQ(counters.values(), zeros);
  }
};

TEST_P(StreamedRows, MatchSumsAndAreBatchInvariant) {
  for (const DType dtype : kFormats) {
    for (const auto& [n_out, width] :
         {std::pair{32u, 512u}, {48u, 1280u}, {16u, 4608u}, {1040u, 256u}, {1040u, 1536u}}) {
      const TestWeight w = weight(dtype, n_out, width), w2 = weight(dtype, 16, width);
      const uint32_t most = 128;
      const auto bias = noise(n_out), x = noise(most * width);
      const auto on_x = put(x), on_bias = put(bias);
      const auto out = space(most * n_out), out2 = space(most * 16);
      for (const uint32_t n_shares : {0u, 1u}) {
        std::vector<float> rows;  // their bits, whoever is beside them
        for (const auto& [n, at_once] : {std::pair{most, 64u},
                                         {61u, 64u},
                                         {29u, 32u},
                                         {64u, 32u},
                                         {1u, 32u},
                                         {most, 128u},
                                         {117u, 128u},
                                         {1u, 128u}}) {
          SCOPED_TRACE(std::to_string(n) + " rows, " + std::to_string(n_out) + " outputs of " + std::to_string(width));
          RowsArgs args{.x = nullptr, .n_rows = n, .width = width, .n_parts = 2};
          args.parts[0] = {w.planes, out.data(), on_bias.data(), n_out};
          args.parts[1] = {w2.planes, out2.data(), nullptr, 16};
          stream({.x = on_x.data(), .at_once = at_once, .n_shares = n_shares}, args, dtype);
          const auto values = out.values();
          if (n == most) {
            EXPECT_LE(nmse(values, product(w, x, bias)), 3e-7);
            EXPECT_LE(nmse(out2.values(), product(w2, x, {})), 3e-7);
            if (rows.empty()) rows = values;
          }
          EXPECT_TRUE(std::equal(rows.begin(), rows.begin() + size_t{n} * n_out, values.begin()));
        }
      }
    }
  }
}

// Queries and keys turned, keys and values in the cache: as by the kernel that would follow.
TEST_P(StreamedRows, RotateAndStore) {
  constexpr uint32_t kQueries = 512, kKeys = 256, kWidth = 1536, kPages = 5, kMost = 70;
  const std::vector<uint32_t> pages = {3, 1, 4, 0, 2};
  std::vector<uint32_t> positions, first_page(kMost, 1);
  for (uint32_t r = 0; r < kMost; r++) positions.push_back(100 + r);
  const auto on_positions = put(positions), on_first = put(first_page), on_pages = put(pages);
  BatchView batch{};
  batch.positions = on_positions.data();
  batch.first_page = on_first.data();
  batch.pages = on_pages.data();
  const DType dtype = DType::q4_k;
  const TestWeight wq = weight(dtype, kQueries, kWidth), wk = weight(dtype, kKeys, kWidth),
                   wv = weight(dtype, kKeys, kWidth);
  const auto on_x = put(noise(kMost * kWidth)), on_bias = put(noise(kKeys));
  struct Case {
    uint32_t head_size, n_pairs;
    bool are_halves;
  };
  for (const Case& c : {Case{128, 64, false}, {128, 24, false}, {64, 32, true}, {128, 64, true}}) {
    std::vector<double> turns;
    for (uint32_t i = 0; i < c.n_pairs; i++) turns.push_back(std::pow(10000.0, -static_cast<double>(i) / c.n_pairs));
    const auto on_turns = put(turns);
    const auto on_factors = put(std::vector<float>(c.n_pairs, 1.25f));
    for (const auto& [n_rows, at_once] : {std::pair{20u, 32u}, {64u, 64u}, {70u, 128u}}) {
      for (const bool caches_halves : {true, false}) {
        SCOPED_TRACE(std::to_string(n_rows) + " rows, heads of " + std::to_string(c.head_size));
        const std::vector<float> untouched(size_t{kPages} * 2 * kPagePositions * kKeys, 0.25f);
        const auto q = space(n_rows * kQueries), k = space(n_rows * kKeys), v = space(n_rows * kKeys),
                   cache = put(untouched), apart = space(n_rows * kQueries), apart_cache = put(untouched);
        RowsArgs args{.x = nullptr, .n_rows = n_rows, .width = kWidth, .n_parts = 3};
        args.parts[0] = {wq.planes, apart.data(), nullptr, kQueries};
        args.parts[1] = {wk.planes, k.data(), on_bias.data(), kKeys};
        args.parts[2] = {wv.planes, v.data(), nullptr, kKeys};
        const Given given{.x = on_x.data(), .at_once = at_once};
        stream(given, args, dtype);
        RopeStoreArgs turn{};
        turn.rope = {{apart.data(), k.data()},
                     {kQueries / c.head_size, kKeys / c.head_size},
                     on_positions.data(),
                     on_turns.data(),
                     on_factors.data(),
                     0,
                     1.5f,
                     c.head_size,
                     c.n_pairs,
                     c.are_halves ? 1u : 2u,
                     c.are_halves ? c.n_pairs : 1u};
        turn.store = {apart_cache.data(), k.data(), v.data(), batch, kKeys, kKeys};
        turn.n_turning = n_turning(turn.rope);
        run("rope", caches_halves ? "rope_store_f16" : "rope_store_f32", rope_store_grid(n_rows, turn), kRopeThreads,
            turn);

        const auto row_rotations = space(n_rows * c.n_pairs * 2);
        const auto cache_rows = put(std::vector<uint32_t>(n_rows));
        const RowRotationsArgs made{turn.rope, batch, n_rows, row_rotations.data(), cache_rows.data()};
        run("rope", "row_rotations", row_rotations_grid(made), kRopeThreads, made);
        args.turn = {row_rotations.data(), cache_rows.data(), cache.data(), kKeys,
                     caches_halves,        c.head_size,       c.n_pairs,    c.are_halves};
        args.roles[0] = StreamRole::query, args.roles[1] = StreamRole::key, args.roles[2] = StreamRole::value;
        args.parts[0].out = q.data();
        args.parts[1].out = args.parts[2].out = nullptr;
        ASSERT_TRUE(can_turn_rows(args.turn, kQueries) && can_turn_rows(args.turn, kKeys));
        stream(given, args, dtype);
        EXPECT_TRUE(q.values() == apart.values());
        EXPECT_TRUE(cache.values() == apart_cache.values());
        EXPECT_FALSE(cache.values() == untouched);
      }
    }
  }
}

TEST_P(StreamedRows, OfRowsBeyondHalfPrecision) {
  for (const DType dtype : kFormats) {
    const TestWeight w = weight(dtype, 272, 1280);
    for (const auto& [at_once, n] : {std::pair{32u, 30u}, {64u, 61u}, {128u, 125u}}) {
      for (const uint32_t n_shares : {0u, 1u}) {
        SCOPED_TRACE(suffix(dtype) + ", " + std::to_string(n) + " rows, " + std::to_string(n_shares) + " shares");
        check_large_rows(w, n, 2e-6, [&, at = at_once](const std::vector<float>& x) {
          const auto n_rows = static_cast<uint32_t>(x.size() / w.width);
          const auto on_x = put(x), out = space(size_t{n_rows} * w.n_rows);
          RowsArgs args{.x = nullptr, .n_rows = n_rows, .width = w.width, .n_parts = 1};
          args.parts[0] = {w.planes, out.data(), nullptr, w.n_rows};
          stream({.x = on_x.data(), .at_once = at, .n_shares = n_shares}, args, dtype);
          return out.values();
        });
      }
    }
  }
}

TEST_P(StreamedRows, NormaliseSumAndActivate) {
  constexpr uint32_t kOut = 1040, kWidth = 1024, kRows = 70;
  for (const DType dtype : kFormats) {
    const TestWeight gate = weight(dtype, kOut, kWidth), up = weight(dtype, kOut, kWidth);
    auto x = noise(kRows * kWidth, 3.0f);
    x[7] = 5000.0f;  // sums of such inputs are too large for halves
    const auto norm = noise(kWidth), before = noise(kRows * kOut), bias = noise(kOut);
    const auto normed = normalised(x, norm, 1e-5);
    const auto gates = product(gate, normed, bias), ups = product(up, normed, {}), plain = product(gate, x, bias);
    const auto on_x = put(x), on_norm = put(norm), on_normed = space(kRows * kWidth), on_bias = put(bias);
    const auto out = space(kRows * kOut), out2 = space(kRows * kOut), activated = space(kRows * kOut);
    for (const auto& [at_once, n_shares] : {std::pair{64u, 0u}, {64u, 1u}, {128u, 0u}, {128u, 1u}}) {
      const auto on_sum = put(before);
      RowsArgs args{.x = nullptr, .n_rows = kRows, .width = kWidth, .n_parts = 1};
      args.parts[0] = {gate.planes, out.data(), on_bias.data(), kOut};
      args.parts[1] = {up.planes, out2.data(), nullptr, kOut};
      args.sum = on_sum.data();
      args.sum_scale = 0.5f;
      stream({.x = on_x.data(), .at_once = at_once, .n_shares = n_shares}, args, dtype);
      std::vector<float> expected;
      for (uint32_t i = 0; i < kRows * kOut; i++) expected.push_back(before[i] + 0.5f * plain[i]);
      EXPECT_LE(nmse(on_sum.values(), expected), 3e-7);

      args.sum = nullptr;
      args.n_parts = 2;
      args.activated = activated.data();
      args.after = StreamAfter::silu;
      const Given given{on_x.data(), on_norm.data(), on_normed.data(), at_once, n_shares};
      stream(given, args, dtype);
      const auto silu = [](double v) { return v / (1 + std::exp(-v)); };
      for (uint32_t i = 0; i < kRows * kOut; i++) expected[i] = static_cast<float>(silu(gates[i]) * ups[i]);
      EXPECT_LE(nmse(on_normed.values(), normed), 1e-12);
      EXPECT_LE(nmse(out.values(), gates), 3e-7);
      EXPECT_LE(nmse(out2.values(), ups), 3e-7);
      const auto values = activated.values();
      EXPECT_LE(nmse(values, expected), 2e-6);
      args.parts[0].out = args.parts[1].out = nullptr;
      stream(given, args, dtype);
      EXPECT_EQ(activated.values(), values);
    }
  }
}

// A product leaves its sum as inputs of the one behind the norm, which scales its outputs: as if both had been there.
TEST_P(StreamedRows, WriteTheInputsOfTheNextNorm) {
  constexpr uint32_t kMost = 61, kWidth = 1024, kSums = 512, kOut = 272;
  constexpr double kEpsilon = 1e-5;
  for (const auto& [dtype, next_dtype] : {std::pair{DType::q4_k, DType::q6_k}, {DType::q6_k, DType::q4_k}}) {
    const TestWeight w = weight(dtype, kSums, kWidth), gate = weight(next_dtype, kOut, kSums),
                     up = weight(next_dtype, kOut, kSums);
    const auto x = noise(kMost * kWidth), bias = noise(kSums), norm = noise(kSums), next_bias = noise(kOut);
    auto before = noise(kMost * kSums);
    std::vector<float> lifts;  // as if rows had been of that size, some of them larger or smaller by far
    for (uint32_t r = 0; r < kMost; r++) {
      const int size = static_cast<int>(r % 25) - 12, off = r % 3 == 0 ? static_cast<int>(r % 13) - 6 : 0;
      for (uint32_t i = 0; i < kSums; i++) before[r * kSums + i] = std::ldexp(before[r * kSums + i], size);
      lifts.push_back(std::ldexp(1.0f, off - std::max(size, 4)));
    }
    before[3 * kSums + 7] = 3e6f;  // after its lift more than a half holds
    const auto plain = product(w, x, bias);
    std::vector<float> sums(before);
    for (uint32_t i = 0; i < kMost * kSums; i++) sums[i] += 0.5f * plain[i];
    const auto normed = normalised(sums, norm, kEpsilon);
    const auto gates = product(gate, normed, next_bias), ups = product(up, normed, {});
    const auto on_x = put(x), on_bias = put(bias), on_norm = put(norm), on_lifts = put(lifts),
               on_next_bias = put(next_bias);
    std::vector<float> bits;  // of gates, however many rows there are
    for (const auto& [n, at_once] : {std::pair{61u, 64u}, {29u, 32u}}) {
      SCOPED_TRACE(std::string(dtype_info(dtype).name) + ", " + std::to_string(n) + " rows");
      const auto on_sums = put(before), squares = space(kMost * kSums / kStreamColumns), next_lifts = space(kMost);
      const uint32_t place = rows_place_bytes(at_once, strip_shape(next_dtype).n_scales);
      OnDevice<uint8_t> left(*device_, size_t{kSums / kStreamColumns} * place);
      RowsArgs args{.x = nullptr, .n_rows = n, .width = kWidth, .n_parts = 1};
      args.parts[0] = {w.planes, nullptr, on_bias.data(), kSums};
      args.sum = on_sums.data();
      args.sum_scale = 0.5f;
      args.next = {on_norm.data(), on_lifts.data(), squares.data(), {ManyLayout::panels, at_once}};
      args.next.to.add(many_order(next_dtype), left.data(), place);
      stream({.x = on_x.data(), .at_once = at_once}, args, dtype);
      const auto first = [&](const std::vector<float>& of, uint32_t width) {
        return std::vector<float>(of.begin(), of.begin() + size_t{n} * width);
      };
      EXPECT_LE(nmse(first(on_sums.values(), kSums), first(sums, kSums)), 1e-9);

      const auto out = space(kMost * kOut), out2 = space(kMost * kOut), activated = space(kMost * kOut);
      RowsArgs next{.x = left.data(), .n_rows = n, .width = kSums, .n_parts = 2};
      next.parts[0] = {gate.planes, out.data(), on_next_bias.data(), kOut};
      next.parts[1] = {up.planes, out2.data(), nullptr, kOut};
      next.norm = {squares.data(), on_lifts.data(), next_lifts.data(), static_cast<float>(kEpsilon)};
      for (const bool activates : {false, true}) {
        if (activates) next.after = StreamAfter::silu, next.activated = activated.data();
        for (const uint32_t n_shares : {1u, 0u}) {
          multiply({.x = nullptr, .at_once = at_once, .n_shares = n_shares}, next, next_dtype);
          // Row by row: they are as different as can be.
          for (uint32_t r = 0; r < n; r++) {
            const auto row = [&](const std::vector<float>& of) {
              return std::vector<float>(of.begin() + r * kOut, of.begin() + (r + 1) * kOut);
            };
            EXPECT_LE(nmse(row(out.values()), row(gates)), 1e-6) << "row " << r;
            EXPECT_LE(nmse(row(out2.values()), row(ups)), 1e-6) << "row " << r;
          }
        }
      }
      if (bits.empty()) bits = out.values();
      EXPECT_EQ(first(out.values(), kOut), first(bits, kOut));
      const auto silu = [](double v) { return v / (1 + std::exp(-v)); };
      std::vector<float> expected;
      for (uint32_t i = 0; i < n * kOut; i++) expected.push_back(static_cast<float>(silu(gates[i]) * ups[i]));
      EXPECT_LE(nmse(first(activated.values(), kOut), expected), 1e-5);
      const auto found = next_lifts.values();
      for (uint32_t r = 0; r < n; r++) {
        double squared = 0;
        for (uint32_t i = 0; i < kSums; i++) squared += double{sums[r * kSums + i]} * sums[r * kSums + i];
        const double scale = 1 / std::sqrt(squared / kSums + kEpsilon);
        EXPECT_TRUE(found[r] <= scale * 1.001 && found[r] > scale / 2.001) << "row " << r;
        EXPECT_EQ(std::ldexp(1.0f, std::ilogb(found[r])), found[r]);
      }
    }
  }
}

TEST_P(StreamedRows, OfTwoFormats) {
  const uint32_t n = 45, width = 512, n_shares = 2;
  for (const auto& [dtype, at_once] :
       {std::pair{DType::q4_k, 64u}, {DType::q5_k, 64u}, {DType::q4_k, 128u}, {DType::q5_k, 128u}}) {
    const TestWeight a = weight(dtype, 272, width), b = weight(DType::q6_k, 48, width);
    const auto x = noise(n * width);
    const auto on_x = put(x), out_a = space(n * 272), out_b = space(n * 48);
    const auto in_a = inputs_of({.x = on_x.data(), .at_once = at_once}, dtype, n, width);
    const auto in_b = inputs_of({.x = on_x.data(), .at_once = at_once}, DType::q6_k, n, width);
    const uint32_t n_tiles = rows_tiles(272 / 16, at_once), n_first = n_tiles * n_shares;
    const auto partial = space(size_t{n_first + n_shares} * kRowsTileSums);
    const auto counters = put(std::vector<uint32_t>(2 * (n_tiles + 1)));
    RowsPairArgs args{};
    args.first = {.x = in_a.data(), .n_rows = n, .width = width, .n_parts = 1};
    args.first.parts[0] = {a.planes, out_a.data(), nullptr, 272};
    args.first.n_tiles = n_tiles, args.first.n_shares = n_shares, args.first.n_blocks = n_first;
    args.first.partial = partial.data(), args.first.counters = counters.data();
    args.second = args.first;
    args.second.x = in_b.data();
    args.second.parts[0] = {b.planes, out_b.data(), nullptr, 48};
    args.second.first_block = n_first, args.second.n_tiles = 1, args.second.n_blocks = n_shares;
    args.second.partial += size_t{n_first} * kRowsTileSums, args.second.counters += 2 * n_tiles;
    const uint32_t bytes =
        std::max(rows_shared_bytes(strip_shape(dtype), at_once), rows_shared_bytes(strip_shape(DType::q6_k), at_once));
    run("stream_rows_hopper", "stream_rows_" + suffix(dtype) + "_q6_k_" + std::to_string(at_once),
        {{n_first + n_shares}, rows_threads(at_once), bytes}, args);
    EXPECT_LE(nmse(out_a.values(), product(a, x, {})), 3e-7);
    EXPECT_LE(nmse(out_b.values(), product(b, x, {})), 3e-7);
  }
}

INSTANTIATE_TEST_SUITE_P(, StreamedRows, testing::both_waves());

}  // namespace
}  // namespace rocmforge::gpu
