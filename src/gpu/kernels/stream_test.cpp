// Streamed products, with what is done before and after them, against sums in f64. They run on Hopper alone.

#include "gpu/kernels/stream_hopper.h"

#include "gpu/kernel_set.h"
#include "gpu/kernels/stream_float_hopper.h"
#include "gpu/kernels/stream_many_hopper.h"
#include "support/kernel_weights.h"

namespace rocmforge::gpu {
namespace {

using testing::nmse;

class Streamed : public Products {
 protected:
  // Of one row, or of floats. args without what follows from them; n_strips: of all parts, or of the gates.
  void stream(StreamArgs args, DType dtype, uint32_t n_strips) {
    const uint32_t rows = args.n_rows == 1 ? 1 : 8, n_pieces = args.width / kStreamColumns;
    const uint32_t n_items = 2 * ((n_strips + kStreamBlocks - 1) / kStreamBlocks);
    divide_stream(args, n_strips, 0, std::min(n_strips, kStreamBlocks));
    const std::string kernel = "stream_" + suffix(dtype) + "_" + std::to_string(rows);
    if (product_kind(dtype) == ProductKind::f16_tiles) {
      run("stream_float_hopper", kernel,
          {{args.n_blocks}, float_stream_threads(rows), float_stream_shared_bytes(n_pieces, rows, n_items)}, args);
      return;
    }
    run("stream_hopper", kernel, {{args.n_blocks}, kStreamThreads, stream_shared_bytes(strip_shape(dtype), n_pieces)},
        args);
  }

  // Eight rows: the kernels that these have to agree with.
  void stream_eight(StreamArgs args, DType dtype, uint32_t n_strips) {
    if (product_kind(dtype) == ProductKind::f16_tiles) {
      stream(args, dtype, n_strips);
      return;
    }
    const StripShape strip = strip_shape(dtype);
    const uint32_t n_pieces = args.width / kStreamColumns;
    const ManyKind kind = n_pieces <= 16 ? ManyKind::rows_8 : ManyKind::wide_8;
    const ManyShape shape = many_shape(kind, strip.stage_bytes);
    const OnDevice<uint8_t> made(*device_, size_t{shape.rows()} * n_pieces * many_row_bytes(strip.n_scales));
    ManyInputsArgs inputs{
        .x = args.x, .n_rows = args.n_rows, .width = args.width, .to = {.rows_at_once = shape.rows()}};
    inputs.to.add(many_order(dtype), made.data(), shape.rows() * many_row_bytes(strip.n_scales));
    run("stream_many_inputs", "stream_many_inputs", many_inputs_grid(inputs), kManyInputsThreads, inputs);
    args.x = reinterpret_cast<const float*>(made.data());
    args.n_blocks = many_clusters(shape);
    run("stream_many_hopper", "stream_many_" + suffix(dtype) + (kind == ManyKind::rows_8 ? "_rows_8" : "_wide_8"),
        {{args.n_blocks, 1, shape.cluster, shape.cluster}, shape.threads(), many_shared_bytes(shape, strip, n_pieces)},
        args);
  }
};

TEST_P(Streamed, MatchTheReferenceAndAreBatchInvariant) {
  if (!device_->has_hopper()) GTEST_SKIP() << "this device has no asynchronous copies";
  each_format([&](DType dtype) {
    if (!has_strips(dtype) && product_kind(dtype) != ProductKind::f16_tiles) return;
    // Widths that two strips share the warps for, that warps share unevenly, and that floats take in phases.
    for (const auto& [n_out, width] : {std::pair{32u, 256u}, {48u, 1280u}, {16u, 4608u}, {2240u, 1280u}}) {
      SCOPED_TRACE(std::to_string(n_out) + " outputs of " + std::to_string(width));
      const TestWeight w = weight(dtype, n_out, width), w2 = weight(dtype, 16, width);
      const auto bias = noise(n_out), x = noise(8 * width);
      const auto on_x = put(x), on_bias = put(bias);
      const auto expected = product(w, x, bias), expected2 = product(w2, x, {});
      const auto out = space(8 * n_out), out2 = space(8 * 16);
      StreamArgs args{.x = on_x.data(), .n_rows = 8, .width = width, .n_parts = 2};
      args.parts[0] = {w.planes, out.data(), on_bias.data(), n_out};
      args.parts[1] = {w2.planes, out2.data(), nullptr, 16};
      stream_eight(args, dtype, n_out / 16 + 1);
      const auto together = out.values();
      EXPECT_LE(nmse(together, expected), 3e-7);
      EXPECT_LE(nmse(out2.values(), expected2), 3e-7);
      for (const uint32_t row : {0u, 5u}) {
        args.x = on_x.data() + row * width;
        args.n_rows = 1;
        stream(args, dtype, n_out / 16 + 1);
        const auto alone = out.values();
        EXPECT_TRUE(std::equal(alone.begin(), alone.begin() + n_out, together.begin() + row * n_out)) << row;
      }
    }
  });
}

TEST_P(Streamed, OfRowsBeyondHalfPrecision) {
  if (!device_->has_hopper()) GTEST_SKIP() << "this device has no asynchronous copies";
  each_format([&](DType dtype) {
    if (!has_strips(dtype) && product_kind(dtype) != ProductKind::f16_tiles) return;
    const TestWeight w = weight(dtype, 48, 1280);
    const auto product_of = [&](const std::vector<float>& x) {
      const auto n = static_cast<uint32_t>(x.size() / w.width);
      const auto on_x = put(x), out = space(size_t{n} * w.n_rows);
      StreamArgs args{.x = on_x.data(), .n_rows = n, .width = w.width, .n_parts = 1};
      args.parts[0] = {w.planes, out.data(), nullptr, w.n_rows};
      if (n == 1) {
        stream(args, dtype, w.n_rows / 16);
      } else {
        stream_eight(args, dtype, w.n_rows / 16);
      }
      return out.values();
    };
    for (size_t kind = 0; kind < kLargeKinds; kind++) {
      check_large_rows(w, 1, 2e-6, product_of, kind);
      check_large_rows(w, 8, 2e-6, product_of, kind);
    }
  });
}

TEST_P(Streamed, NormaliseSumAndActivate) {
  if (!device_->has_hopper()) GTEST_SKIP() << "this device has no asynchronous copies";
  constexpr uint32_t kOut = 64;
  struct Case {
    DType dtype;
    uint32_t n, width;
  };
  const Case cases[] = {{DType::q4_k, 1, 512},  {DType::q6_k, 1, 4096}, {DType::q4_k, 1, 14336},
                        {DType::bf16, 3, 4096}, {DType::bf16, 1, 6144}, {DType::f16, 8, 6144}};
  for (const auto& [dtype, n, width] : cases) {
    SCOPED_TRACE(suffix(dtype) + ", " + std::to_string(n) + " rows of " + std::to_string(width));
    const TestWeight gate = weight(dtype, kOut, width), up = weight(dtype, kOut, width);
    auto x = noise(n * width, 3.0f);
    x[7] = 5000.0f;  // sums of such inputs are too large for halves
    const auto norm = noise(width), before = noise(n * kOut);
    const auto normed = normalised(x, norm, 1e-5);
    const auto gates = product(gate, normed, {}), ups = product(up, normed, {}), plain = product(gate, x, {});
    const auto on_x = put(x), on_norm = put(norm), on_normed = space(n * width), on_sum = put(before);
    const auto out = space(n * kOut), out2 = space(n * kOut), activated = space(n * kOut);
    StreamArgs args{.x = on_x.data(), .n_rows = n, .width = width, .n_parts = 1};
    args.parts[0] = {gate.planes, out.data(), nullptr, kOut};
    args.parts[1] = {up.planes, out2.data(), nullptr, kOut};
    args.sum = on_sum.data();
    args.sum_scale = 0.5f;
    stream(args, dtype, kOut / 16);
    std::vector<float> expected;
    for (uint32_t i = 0; i < n * kOut; i++) expected.push_back(before[i] + 0.5f * plain[i]);
    EXPECT_LE(nmse(on_sum.values(), expected), 3e-7);

    args.sum = nullptr;
    args.norm_weight = on_norm.data();
    args.normed = on_normed.data();
    args.epsilon = 1e-5f;
    args.n_parts = 2;
    args.activated = activated.data();
    const auto silu = [](double v) { return v / (1 + std::exp(-v)); };
    args.after = StreamAfter::silu;
    stream(args, dtype, kOut / 16);
    for (uint32_t i = 0; i < n * kOut; i++) expected[i] = static_cast<float>(silu(gates[i]) * ups[i]);
    EXPECT_LE(nmse(on_normed.values(), normed), 1e-12);
    EXPECT_LE(nmse(out.values(), gates), 3e-7);
    EXPECT_LE(nmse(activated.values(), expected), 2e-6);
  }
}

TEST_P(Streamed, OfTwoFormats) {
  if (!device_->has_hopper()) GTEST_SKIP() << "this device has no asynchronous copies";
  const TestWeight a = weight(DType::q4_k, 80, 512), b = weight(DType::q6_k, 48, 512);
  const auto x = noise(512);
  const auto on_x = put(x), out_a = space(80), out_b = space(48);
  StreamPairArgs args{};
  args.first = {.x = on_x.data(), .n_rows = 1, .width = 512, .n_parts = 1};
  args.second = args.first;
  divide_stream(args.first, 5, 0, 2);
  divide_stream(args.second, 3, 2, 1);
  args.first.parts[0] = {a.planes, out_a.data(), nullptr, 80};
  args.second.parts[0] = {b.planes, out_b.data(), nullptr, 48};
  run("stream_hopper", "stream_q4_k_q6_k_1",
      {{3},
       kStreamThreads,
       std::max(stream_shared_bytes(strip_shape(DType::q4_k), 2), stream_shared_bytes(strip_shape(DType::q6_k), 2))},
      args);
  EXPECT_LE(nmse(out_a.values(), product(a, x, {})), 3e-7);
  EXPECT_LE(nmse(out_b.values(), product(b, x, {})), 3e-7);
}

TEST_P(Streamed, RotateAndStoreLikeTheNextKernel) {
  if (!device_->has_hopper()) GTEST_SKIP() << "this device has no asynchronous copies";
  constexpr uint32_t kHeadSize = 32, kPairs = 12, kQueries = 20 * kHeadSize, kKeys = 10 * kHeadSize;
  const std::vector<uint32_t> pages = {3, 1, 2};
  const auto on_position = put(std::vector<uint32_t>{70}), on_first = put(std::vector<uint32_t>{1}),
             on_pages = put(pages);
  const auto on_turns = put(std::vector<double>(kPairs, 0.37));
  const auto on_factors = put(std::vector<float>(kPairs, 1.25f));
  BatchView batch{};
  batch.positions = on_position.data();
  batch.first_page = on_first.data();
  batch.pages = on_pages.data();
  // All strips of a block in one batch, and in several.
  for (const uint32_t n_blocks : {kStreamBlocks, 1u}) {
    for (const uint32_t width : {512u, 4608u}) {
      for (const bool halves : {true, false}) {
        SCOPED_TRACE(std::to_string(n_blocks) + " blocks, width " + std::to_string(width));
        const TestWeight wq = weight(DType::q4_k, kQueries, width), wk = weight(DType::q4_k, kKeys, width),
                         wv = weight(DType::q4_k, kKeys, width);
        const auto on_x = put(noise(width)), on_bias = put(noise(kKeys));
        const std::vector<float> untouched(size_t{4} * 2 * kPagePositions * kKeys, 0.25f);
        const auto q = space(kQueries), k = space(kKeys), v = space(kKeys), cache = put(untouched);
        const auto apart_q = space(kQueries), apart_k = space(kKeys), apart_v = space(kKeys),
                   apart_cache = put(untouched);
        StreamArgs args{.x = on_x.data(), .n_rows = 1, .width = width, .n_parts = 3};
        const auto to = [&](float* queries, float* keys, float* values) {
          args.parts[0] = {wq.planes, queries, nullptr, kQueries};
          args.parts[1] = {wk.planes, keys, on_bias.data(), kKeys};
          args.parts[2] = {wv.planes, values, nullptr, kKeys};
          StreamArgs divided = args;
          const uint32_t n_strips = (kQueries + 2 * kKeys) / kStreamOutputs;
          divide_stream(divided, n_strips, 0, std::min(n_blocks, n_strips));
          run("stream_hopper", "stream_q4_k_1",
              {{divided.n_blocks},
               kStreamThreads,
               stream_shared_bytes(strip_shape(DType::q4_k), width / kStreamColumns)},
              divided);
        };
        to(apart_q.data(), apart_k.data(), apart_v.data());
        RopeStoreArgs turn{};
        turn.rope = {{apart_q.data(), apart_k.data()},
                     {kQueries / kHeadSize, kKeys / kHeadSize},
                     on_position.data(),
                     on_turns.data(),
                     on_factors.data(),
                     0,
                     1.5f,
                     kHeadSize,
                     kPairs,
                     2,
                     1};
        turn.store = {apart_cache.data(), apart_k.data(), apart_v.data(), batch, kKeys, kKeys};
        turn.n_turning = n_turning(turn.rope);
        run("rope", halves ? "rope_store_f16" : "rope_store_f32", rope_store_grid(1, turn), kRopeThreads, turn);

        args.roles[0] = StreamRole::query, args.roles[1] = StreamRole::key, args.roles[2] = StreamRole::value;
        args.caches_halves = halves;
        args.turn = turn;
        args.turn.store.cache = cache.data();
        to(q.data(), k.data(), v.data());
        EXPECT_EQ(q.values(), apart_q.values());
        EXPECT_EQ(k.values(), apart_k.values());
        EXPECT_EQ(v.values(), apart_v.values());
        EXPECT_TRUE(cache.values() == apart_cache.values());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Streamed, testing::both_waves());

}  // namespace
}  // namespace rocmforge::gpu
