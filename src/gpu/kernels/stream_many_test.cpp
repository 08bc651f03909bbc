// Streamed products of 2 to 32 rows against sums in f64. They run on Hopper alone.

#include "gpu/kernel_set.h"
#include "gpu/kernels/stream_many_hopper.h"

#include "support/kernel_weights.h"

namespace rocmforge::gpu {
namespace {

using testing::nmse;

class StreamedMany : public Products {
 protected:
  void SetUp() override {
    Products::SetUp();
    if (device_ != nullptr && !device_->has_hopper()) GTEST_SKIP() << "this device has no clusters";
  }

  struct Kernel {
    ManyKind kind;
    const char* name;
  };
  static constexpr Kernel kKernels[] = {{ManyKind::rows_8, "rows_8"},   {ManyKind::rows_16, "rows_16"},
                                        {ManyKind::rows_32, "rows_32"}, {ManyKind::wide_8, "wide_8"},
                                        {ManyKind::wide_16, "wide_16"}, {ManyKind::wide_32, "wide_32"}};

  // args: x, norm and all that comes after the product, of no more rows than the kernel takes.
  void stream(StreamArgs args, DType dtype, const Kernel& kernel) {
    const StripShape strip = strip_shape(dtype);
    const ManyShape shape = many_shape(kernel.kind, strip.stage_bytes);
    const uint32_t n_pieces = args.width / kStreamColumns;
    const OnDevice<uint8_t> made(*device_, size_t{shape.rows()} * n_pieces * many_row_bytes(strip.n_scales));
    ManyInputsArgs inputs{.x = args.x,
                          .norm_weight = args.norm_weight,
                          .normed = args.normed,
                          .epsilon = args.epsilon,
                          .n_rows = args.n_rows,
                          .width = args.width,
                          .to = {.rows_at_once = shape.rows()}};
    inputs.to.add(many_order(dtype), made.data(), shape.rows() * many_row_bytes(strip.n_scales));
    run("stream_many_inputs", "stream_many_inputs", many_inputs_grid(inputs), kManyInputsThreads, inputs);
    args.x = reinterpret_cast<const float*>(made.data());
    args.n_blocks = args.parts[0].n_out > 1000 ? 1 : many_clusters(shape);  // so that warps have several strips
    run("stream_many_hopper", "stream_many_" + suffix(dtype) + "_" + kernel.name,
        {{args.n_blocks, 1, shape.cluster, shape.cluster}, shape.threads(), many_shared_bytes(shape, strip, n_pieces)},
        args);
  }
};

TEST_P(StreamedMany, MatchSumsAndAreBatchInvariant) {
  each_format([&](DType dtype) {
    if (!has_strips(dtype)) return;
    for (const Kernel& kernel : kKernels) {
      // Fewer pieces than blocks, blocks with unequal shares, ways of several pieces, and of each for many strips.
      for (const auto& [n_out, width] :
           {std::pair{32u, 512u}, {48u, 1280u}, {16u, 4608u}, {1040u, 256u}, {1040u, 4608u}}) {
        const ManyShape shape = many_shape(kernel.kind, strip_shape(dtype).stage_bytes);
        if (!many_fits(shape, strip_shape(dtype), width / kStreamColumns)) continue;
        SCOPED_TRACE(std::string(kernel.name) + ": " + std::to_string(n_out) + " outputs of " + std::to_string(width));
        const uint32_t n = shape.rows() - 3;
        const TestWeight w = weight(dtype, n_out, width), w2 = weight(dtype, 16, width);
        const auto bias = noise(n_out), x = noise(n * width);
        const auto on_x = put(x), on_bias = put(bias);
        const auto out = space(n * n_out), out2 = space(n * 16);
        StreamArgs args{.x = on_x.data(), .n_rows = n, .width = width, .n_parts = 2};
        args.parts[0] = {w.planes, out.data(), on_bias.data(), n_out};
        args.parts[1] = {w2.planes, out2.data(), nullptr, 16};
        stream(args, dtype, kernel);
        const auto together = out.values();
        EXPECT_LE(nmse(together, product(w, x, bias)), 3e-7);
        EXPECT_LE(nmse(out2.values(), product(w2, x, {})), 3e-7);
        args.x = on_x.data() + 4 * width;
        args.n_rows = 1;
        stream(args, dtype, kernel);
        const auto alone = out.values();
        EXPECT_TRUE(std::equal(alone.begin(), alone.begin() + n_out, together.begin() + 4 * n_out));
      }
    }
  });
}

TEST_P(StreamedMany, OfRowsBeyondHalfPrecision) {
  each_format([&](DType dtype) {
    if (!has_strips(dtype)) return;
    for (const Kernel& kernel : kKernels) {
      const ManyShape shape = many_shape(kernel.kind, strip_shape(dtype).stage_bytes);
      const uint32_t width = shape.cluster == 8 ? 4608 : 1280;
      if (!many_fits(shape, strip_shape(dtype), width / kStreamColumns)) continue;
      SCOPED_TRACE(kernel.name);
      const TestWeight w = weight(dtype, 48, width);
      check_large_rows(w, shape.rows() - 3, 2e-6, [&](const std::vector<float>& x) {
        const auto n = static_cast<uint32_t>(x.size() / width);
        const auto on_x = put(x), out = space(size_t{n} * w.n_rows);
        StreamArgs args{.x = on_x.data(), .n_rows = n, .width = width, .n_parts = 1};
        args.parts[0] = {w.planes, out.data(), nullptr, w.n_rows};
        stream(args, dtype, kernel);
        return out.values();
      });
    }
  });
}

TEST_P(StreamedMany, NormaliseSumAndActivate) {
  constexpr uint32_t kOut = 1040;
  for (const Kernel& kernel : kKernels) {
    SCOPED_TRACE(kernel.name);
    const ManyShape shape = many_shape(kernel.kind, strip_shape(DType::q4_k).stage_bytes);
    const uint32_t width = shape.cluster == 8 ? 4608 : 1024, n = shape.rows();
    const TestWeight gate = weight(DType::q4_k, kOut, width), up = weight(DType::q4_k, kOut, width);
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
    stream(args, DType::q4_k, kernel);
    std::vector<float> expected;
    for (uint32_t i = 0; i < n * kOut; i++) expected.push_back(before[i] + 0.5f * plain[i]);
    EXPECT_LE(nmse(on_sum.values(), expected), 3e-7);

    args.sum = nullptr;
    args.norm_weight = on_norm.data();
    args.normed = on_normed.data();
    args.epsilon = 1e-5f;
    args.n_parts = 2;
    args.activated = activated.data();
    args.after = StreamAfter::silu;
    stream(args, DType::q4_k, kernel);
    const auto silu = [](double v) { return v / (1 + std::exp(-v)); };
    for (uint32_t i = 0; i < n * kOut; i++) expected[i] = static_cast<float>(silu(gates[i]) * ups[i]);
    EXPECT_LE(nmse(on_normed.values(), normed), 1e-12);
    EXPECT_LE(nmse(out.values(), gates), 3e-7);
    EXPECT_LE(nmse(activated.values(), expected), 2e-6);
  }
}

TEST_P(StreamedMany, OfTwoFormats) {
  const uint32_t n = 13, width = 512;
  const TestWeight a = weight(DType::q4_k, 80, width), b = weight(DType::q6_k, 48, width);
  const auto x = noise(n * width);
  const auto on_x = put(x), out_a = space(n * 80), out_b = space(n * 48);
  const OnDevice<uint8_t> in_a(*device_, size_t{16} * 2 * many_row_bytes(1)),
      in_b(*device_, size_t{16} * 2 * many_row_bytes(2));
  ManyInputsArgs inputs{.x = on_x.data(), .n_rows = n, .width = width, .to = {.rows_at_once = 16}};
  inputs.to.add(many_order(DType::q4_k), in_a.data(), 16 * many_row_bytes(1));
  inputs.to.add(many_order(DType::q6_k), in_b.data(), 16 * many_row_bytes(2));
  run("stream_many_inputs", "stream_many_inputs", many_inputs_grid(inputs), kManyInputsThreads, inputs);
  StreamPairArgs args{};
  args.first = {.x = nullptr, .n_rows = n, .width = width, .n_parts = 1, .n_blocks = 2};
  args.second = args.first;
  args.second.first_block = 2;
  args.first.x = reinterpret_cast<const float*>(in_a.data());
  args.second.x = reinterpret_cast<const float*>(in_b.data());
  args.first.parts[0] = {a.planes, out_a.data(), nullptr, 80};
  args.second.parts[0] = {b.planes, out_b.data(), nullptr, 48};
  const auto shape = [](DType dtype) { return many_shape(ManyKind::rows_16, strip_shape(dtype).stage_bytes); };
  const auto bytes = [&](DType dtype) { return many_shared_bytes(shape(dtype), strip_shape(dtype), 2); };
  run("stream_many_hopper", "stream_many_q4_k_q6_k_rows_16",
      {{4, 1, 4, 4}, shape(DType::q4_k).threads(), std::max(bytes(DType::q4_k), bytes(DType::q6_k))}, args);
  EXPECT_LE(nmse(out_a.values(), product(a, x, {})), 3e-7);
  EXPECT_LE(nmse(out_b.values(), product(b, x, {})), 3e-7);
}

INSTANTIATE_TEST_SUITE_P(, StreamedMany, testing::both_waves());

}  // namespace
}  // namespace rocmforge::gpu
