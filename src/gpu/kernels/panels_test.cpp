// Panels of rows and of decoded weights, and the products of both.

#include <cmath>

#include "gpu/kernel_set.h"
#include "gpu/kernels/matmul_panels.h"
#include "support/kernel_weights.h"

namespace rocmforge::gpu {
namespace {

using testing::nmse;

// Element (row, column) of panels of so many rows.
float element(std::span<const uint8_t> panels, size_t row, size_t column, size_t width, size_t panel_rows) {
  const size_t in_panel = row % panel_rows, panel = row / panel_rows * (width / 64) + column / 64;
  const size_t at = (panel * panel_rows + in_panel) * 128 + (column % 64 / 8 ^ in_panel % 8) * 16 + column % 8 * 2;
  F16 half;
  std::memcpy(&half, panels.data() + at, sizeof half);
  return to_float(half);
}

class Panels : public Products {
 protected:
  // Outputs from `first` on, n of them.
  void decode_weight(uint8_t* to, const TestWeight& w, uint32_t first, uint32_t n) {
    const WeightPanelsArgs args{to, w.planes, first, w.n_rows, w.width};
    run("panels", "weight_panels_" + suffix(w.dtype), weight_panels_grid(args, n), kPanelsThreads, args);
  }
  struct MadePanels {
    OnDevice<uint8_t> panels;
    OnDevice<float> scales;
  };
  MadePanels panels_of(const std::vector<float>& x, uint32_t width) {
    const auto n = static_cast<uint32_t>(x.size() / width);
    MadePanels out{{*device_, size_t{padded_to(n, kInputPanelRows)} * width * 2}, space(n)};
    const auto on_x = put(x);
    const PanelsArgs args{out.panels.data(), out.scales.data(), on_x.data(), n, width};
    run("panels", "panels", panels_grid(args), kPanelsThreads, args);
    return out;
  }
  static double sum(const TestWeight& w, std::span<const float> x, size_t row, size_t out,
                    std::span<const float> bias) {
    double total = bias.empty() ? 0.0 : bias[out];
    for (size_t i = 0; i < w.width; i++) total += double{w.values[out * w.width + i]} * x[row * w.width + i];
    return total;
  }
  void multiply(const MatmulPanelsArgs& args, uint32_t n_sets, uint32_t rows) {
    run("matmul_panels", "matmul_panels_" + std::to_string(rows),
        {{padded_to(args.n_rows, rows) / rows, padded_to(n_sets, 2) / 2, 2, 2},
         kMatmulPanelsThreads,
         matmul_panels_shared_bytes(rows)},
        args);
  }
};

TEST_P(Panels, HoldRowsAndZerosAfterThem) {
  constexpr uint32_t kWidth = 192, kRows = 70;
  const auto x = noise(kRows * kWidth);
  const auto made = panels_of(x, kWidth);
  EXPECT_EQ(made.scales.values(), std::vector<float>(kRows, 1.0f));
  const auto got = made.panels.values();
  for (size_t r = 0; r < padded_to(kRows, kInputPanelRows); r++) {
    for (size_t i = 0; i < kWidth; i++) {
      const float expected = r < kRows ? to_float(to_f16(x[r * kWidth + i])) : 0.0f;
      ASSERT_EQ(element(got, r, i, kWidth, kInputPanelRows), expected) << "row " << r << ", column " << i;
    }
  }
}

// As if rows had been scaled before. The width takes more than one sweep of a block.
TEST_P(Panels, ScaleRowsThatHalvesCannotHold) {
  constexpr uint32_t kWidth = 64 * 130, kRows = 16;
  const auto x = with_large_rows(noise(kRows * kWidth), kWidth, 0);
  const auto [scaled, scales] = scaled_for_halves(x, kWidth);
  const auto made = panels_of(x, kWidth);
  EXPECT_EQ(made.scales.values(), scales);
  EXPECT_TRUE(made.panels.values() == panels_of(scaled, kWidth).panels.values());
}

TEST_P(Panels, HoldWeightsOfEveryFormat) {
  constexpr uint32_t kWidth = 512, kOutputs = 150, kFirst = 16;
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.use != DTypeUse::weight || !is_for_hopper(info.dtype) || !can_encode(info.dtype)) continue;
    SCOPED_TRACE(info.name);
    const TestWeight w = weight(info.dtype, kOutputs, kWidth);
    const std::vector<uint8_t> before(size_t{3} * kWeightPanelRows * kWidth * 2, 0xFF);
    const auto out = put(before);
    decode_weight(out.data(), w, kFirst, kOutputs - kFirst);
    const auto got = out.values();
    for (size_t o = 0; o < size_t{2} * kWeightPanelRows; o++) {
      for (size_t i = 0; i < kWidth; i++) {
        const float expected = kFirst + o < kOutputs ? w.values[(kFirst + o) * kWidth + i] : 0.0f;
        ASSERT_NEAR(element(got, o, i, kWidth, kWeightPanelRows), expected, 2e-3 * std::abs(expected) + 1e-6);
      }
    }
    EXPECT_EQ(got[size_t{2} * kWeightPanelRows * kWidth * 2], 0xFF) << "more than whole panels";
  }
}

TEST_P(Panels, MultiplyOnHopperAsTheirTwinsDo) {
  if (!device_->has_hopper()) GTEST_SKIP() << "this device has no warpgroup instructions";
  constexpr uint32_t kWidth = 1280;
  for (const uint32_t n : {64u, 70u, 300u}) {
    for (const uint32_t rows : {128u, 256u}) {
      SCOPED_TRACE(std::to_string(n) + " rows, " + std::to_string(rows) + " a block");
      const TestWeight first = weight(DType::q4_k, 300, kWidth), second = weight(DType::q6_k, 70, kWidth);
      const auto x = noise(size_t{n} * kWidth), bias = noise(300);
      const auto inputs = panels_of(x, kWidth);
      const auto on_bias = put(bias);
      const OnDevice<uint8_t> panels(*device_, size_t{4} * kWeightPanelRows * kWidth * 2);
      decode_weight(panels.data(), first, 0, 300);
      decode_weight(panels.data() + size_t{3} * kWeightPanelRows * kWidth * 2, second, 6, 64);
      const auto out = space(size_t{n} * 300), out2 = space(size_t{n} * 70);
      MatmulPanelsArgs args{panels.data(), inputs.panels.data(), inputs.scales.data(), n, kWidth, 2, {}};
      args.parts[0] = {out.data(), on_bias.data(), 300, 0, 300};
      args.parts[1] = {out2.data(), nullptr, 70, 6, 64};
      multiply(args, 4, rows);
      const auto got = out.values(), got2 = out2.values();
      std::vector<float> expected, expected2, last;
      for (size_t r = 0; r < n; r++) {
        for (size_t o = 0; o < 300; o++) expected.push_back(static_cast<float>(sum(first, x, r, o, bias)));
        for (size_t o = 6; o < 70; o++) {
          expected2.push_back(static_cast<float>(sum(second, x, r, o, {})));
          last.push_back(got2[r * 70 + o]);
        }
      }
      EXPECT_LE(nmse(got, expected), 1e-6);
      EXPECT_LE(nmse(last, expected2), 1e-6);
    }
  }
}

TEST_P(Panels, MultiplyRowsThatHalvesCannotHold) {
  if (!device_->has_hopper()) GTEST_SKIP() << "this device has no warpgroup instructions";
  const TestWeight w = weight(DType::q4_k, 300, 1280);
  const OnDevice<uint8_t> panels(*device_, size_t{3} * kWeightPanelRows * w.width * 2);
  decode_weight(panels.data(), w, 0, w.n_rows);
  for (const uint32_t n : {64u, 70u, 300u}) {
    for (const uint32_t rows : {128u, 256u}) {
      check_large_rows(w, n, 2e-6, [&](const std::vector<float>& x) {
        const auto inputs = panels_of(x, w.width);
        const auto out = space(size_t{n} * w.n_rows);
        MatmulPanelsArgs args{panels.data(), inputs.panels.data(), inputs.scales.data(), n, w.width, 1, {}};
        args.parts[0] = {out.data(), nullptr, w.n_rows, 0, w.n_rows};
        multiply(args, 3, rows);
        return out.values();
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Panels, testing::both_waves());

}  // namespace
}  // namespace rocmforge::gpu
