// Few rows times weights of every format, decoded in registers.

#include "gpu/kernels/stream_fragments.h"

#include "support/kernel_weights.h"

namespace rocmforge::gpu {
namespace {

using testing::nmse;

class StreamFragments : public Products {
 protected:
  struct Part {
    const TestWeight& w;
    std::vector<float> bias = {};
  };
  uint32_t n_tiles(const std::vector<Part>& parts) const {
    uint32_t n = 0;
    for (const Part& part : parts) n += stream_fragments_tiles(part.w.n_rows, device_->wave());
    return n;
  }
  // The products of x with all parts' weights: a matrix of rows for each. n_slices 0: as many as the weights get.
  std::vector<std::vector<float>> products(const std::vector<float>& x, const std::vector<Part>& parts,
                                           uint32_t n_slices = 0) {
    const uint32_t width = parts[0].w.width, tiles = n_tiles(parts);
    const auto n = static_cast<uint32_t>(x.size() / width);
    const OnDevice<uint8_t> inputs(*device_, size_t{padded_to(n, kInputPanelRows)} * width * 2);
    const auto scales = space(n), on_x = put(x);
    const PanelsArgs panels{inputs.data(), scales.data(), on_x.data(), n, width, PanelOrder::tiles_by_column};
    run("panels", "panels", panels_grid(panels), kPanelsThreads, panels);

    StreamFragmentsArgs args{};
    std::vector<OnDevice<float>> outs, biases;
    for (size_t p = 0; p < parts.size(); p++) {
      outs.push_back(space(size_t{n} * parts[p].w.n_rows));
      biases.push_back(put(parts[p].bias.empty() ? std::vector<float>(1) : parts[p].bias));
      args.parts[p] = {parts[p].w.planes, outs[p].data(), parts[p].bias.empty() ? nullptr : biases[p].data(),
                       parts[p].w.n_rows};
    }
    args.inputs = inputs.data();
    args.scales = scales.data();
    args.n_rows = n;
    args.width = width;
    args.n_slices = n_slices != 0 ? n_slices : stream_fragments_slices(tiles, width);
    const Grid grid = stream_fragments_grid(tiles, args.n_slices, n);
    const auto partial = space(stream_fragments_partial(tiles, args.n_slices, n, device_->wave()));
    const auto counters = put(std::vector<uint32_t>(size_t{tiles} * grid.z));
    args.partial = partial.data();
    args.counters = counters.data();
    run("stream_fragments",
        "stream_fragments_" + suffix(parts[0].w.dtype) + "_" + std::to_string(stream_fragments_rows(n)), grid,
        kStreamFragmentsThreads, args);
    EXPECT_EQ(counters.values(), std::vector<uint32_t>(size_t{tiles} * grid.z));
    std::vector<std::vector<float>> got;
    for (const auto& out : outs) got.push_back(out.values());
    return got;
  }
  template <class F>
  static void each_streamed_format(F&& f) {
    each_format([&](DType dtype) {
      if (has_own_kernels(dtype) && dtype != DType::f32) f(dtype);
    });
  }
};

// Activations, weights and their scales are rounded to halves.
constexpr double kTolerance = 5e-7;

TEST_P(StreamFragments, MultiplyEveryFormat) {
  each_streamed_format([&](DType dtype) {
    // By each of a format's kernels. Outputs that end within a wave's; a width that ends within a round where blocks
    // are small.
    const uint32_t width = dtype_info(dtype).block_elements == 256 ? 512 : 576;
    for (const auto& [n, n_out] : {std::pair(7u, 150u), std::pair(17u, 20u), std::pair(33u, 20u)}) {
      const TestWeight w = weight(dtype, n_out, width);
      const auto bias = noise(n_out), x = noise(size_t{n} * width);
      EXPECT_LE(nmse(products(x, {{w, bias}})[0], product(w, x, bias)), kTolerance) << suffix(dtype) << ", " << n;
    }
  });
}

TEST_P(StreamFragments, MultiplyAnyNumberOfRows) {
  for (const DType dtype : {DType::q4_k, DType::q8_0, DType::q2_k}) {
    const TestWeight w = weight(dtype, 40, 512);
    for (const uint32_t n : {1u, 2u, 16u, 17u, 33u, 64u, 65u, 128u}) {
      SCOPED_TRACE(suffix(dtype) + ", " + std::to_string(n) + " rows");
      const auto x = noise(size_t{n} * w.width);
      EXPECT_LE(nmse(products(x, {{w}})[0], product(w, x, {})), kTolerance);
    }
  }
}

TEST_P(StreamFragments, MultiplyThreeWeightsInOneLaunch) {
  const TestWeight first = weight(DType::q4_k, 150, 256), second = weight(DType::q4_k, 16, 256),
                   third = weight(DType::q4_k, 129, 256);
  const auto bias = noise(150), x = noise(size_t{9} * 256);
  const auto got = products(x, {{first, bias}, {second}, {third}});
  EXPECT_LE(nmse(got[0], product(first, x, bias)), kTolerance);
  EXPECT_LE(nmse(got[1], product(second, x, {})), kTolerance);
  EXPECT_LE(nmse(got[2], product(third, x, {})), kTolerance);
}

TEST_P(StreamFragments, SumSlicesOfTheWidth) {
  for (const DType dtype : {DType::q6_k, DType::q5_0, DType::f16}) {
    const TestWeight w = weight(dtype, 140, 2048);
    const auto bias = noise(w.n_rows), x = noise(size_t{20} * w.width);
    const auto expected = product(w, x, bias);
    for (const uint32_t n_slices : {1u, 2u, 3u, 8u}) {
      SCOPED_TRACE(suffix(dtype) + " in " + std::to_string(n_slices) + " slices");
      EXPECT_LE(nmse(products(x, {{w, bias}}, n_slices)[0], expected), kTolerance);
    }
  }
}

// Every element of an operand has a value of its own: a wrong layout shows.
TEST_P(StreamFragments, MultiplyEachColumnByItsOwn) {
  for (const DType dtype : {DType::q4_k, DType::q6_k, DType::q2_k, DType::q4_0, DType::tq1_0, DType::f16}) {
    constexpr uint32_t kWidth = 256, kRows = 16;
    const TestWeight w = weight(dtype, 16, kWidth);
    for (uint32_t first = 0; first < kWidth; first += kRows) {
      std::vector<float> x(size_t{kRows} * kWidth);
      for (uint32_t r = 0; r < kRows; r++) x[r * kWidth + first + r] = 1;
      const auto got = products(x, {{w}})[0];
      for (uint32_t r = 0; r < kRows; r++) {
        for (uint32_t o = 0; o < w.n_rows; o++) {
          const float expected = w.values[o * kWidth + first + r];
          ASSERT_NEAR(got[r * w.n_rows + o], expected, 1e-3 + std::abs(expected) * 2e-3)
              << suffix(dtype) << ", column " << first + r << ", output " << o;
        }
      }
    }
  }
}

TEST_P(StreamFragments, MultiplyRowsTheSameInAnyCompany) {
  for (const DType dtype : {DType::q4_k, DType::q8_0}) {
    const TestWeight w = weight(dtype, 40, 1024);
    const auto x = noise(size_t{70} * w.width);
    const auto together = products(x, {{w}})[0];
    for (const uint32_t n : {2u, 16u, 17u, 33u, 64u}) {
      const auto some = products({x.begin() + w.width * 3, x.begin() + w.width * (3 + n)}, {{w}})[0];
      EXPECT_TRUE(std::ranges::equal(some, std::span(together).subspan(3 * w.n_rows, n * w.n_rows))) << n << " rows";
    }
  }
}

TEST_P(StreamFragments, MultiplyRowsBeyondHalfPrecision) {
  for (const DType dtype : {DType::q4_k, DType::bf16}) {
    const TestWeight w = weight(dtype, 50, 512);
    check_large_rows(w, 14, 2e-6, [&](const std::vector<float>& x) { return products(x, {{w}})[0]; });
  }
}

INSTANTIATE_TEST_SUITE_P(, StreamFragments, testing::all_devices());

TEST(StreamFragmentsShape, SlicesFillACardAndAreNotShort) {
  EXPECT_EQ(stream_fragments_slices(stream_fragments_tiles(4096, 32), 4096), 8);
  EXPECT_EQ(stream_fragments_slices(stream_fragments_tiles(28672, 32), 4096), 1);
  EXPECT_EQ(stream_fragments_slices(stream_fragments_tiles(1024, 32), 4096), 8);
  EXPECT_EQ(stream_fragments_slices(stream_fragments_tiles(1024, 32), 256), 1);
  EXPECT_EQ(stream_fragments_slices(stream_fragments_tiles(128, 64), 65536), 16);
}

}  // namespace
}  // namespace rocmforge::gpu
