// Panels of rows and of decoded weights, and the products of both.

#include <cmath>

#include "gpu/kernel_set.h"
#include "gpu/kernels/matmul_fragments.h"
#include "gpu/kernels/matmul_panels.h"
#include "support/kernel_weights.h"

namespace rocmforge::gpu {
namespace {

using testing::nmse;

// Element (row, column) of panels of so many rows.
float element(std::span<const uint8_t> panels, size_t row, size_t column, size_t width, size_t panel_rows,
              PanelOrder order = PanelOrder::swizzled) {
  const size_t in_panel = row % panel_rows, panel = row / panel_rows * (width / 64) + column / 64;
  size_t at = (panel * panel_rows + in_panel) * 128 + (column % 64 / 8 ^ in_panel % 8) * 16;
  const size_t tile = (row / 16 * (width / 32) + column / 32) * 1024, chunk = column % 32 / 8;
  if (order == PanelOrder::tiles_by_row) at = tile + row % 16 * 64 + chunk * 16;
  if (order == PanelOrder::tiles_by_column) at = tile + chunk * 256 + row % 16 * 16;
  at += column % 8 * 2;
  F16 half;
  std::memcpy(&half, panels.data() + at, sizeof half);
  return to_float(half);
}

class Panels : public Products {
 protected:
  // Outputs from `first` on, n of them.
  void decode_weight(uint8_t* to, const TestWeight& w, uint32_t first, uint32_t n,
                     PanelOrder order = PanelOrder::swizzled) {
    const WeightPanelsArgs args{to, w.planes, first, w.n_rows, w.width, order};
    run("panels", "weight_panels_" + suffix(w.dtype), weight_panels_grid(args, n), kPanelsThreads, args);
  }
  struct MadePanels {
    OnDevice<uint8_t> panels;
    OnDevice<float> scales;
  };
  MadePanels panels_of(const std::vector<float>& x, uint32_t width, PanelOrder order = PanelOrder::swizzled,
                       uint32_t padded_rows = kInputPanelRows) {
    const auto n = static_cast<uint32_t>(x.size() / width);
    MadePanels out{{*device_, size_t{padded_to(n, padded_rows)} * width * 2}, space(n)};
    const auto on_x = put(x);
    const PanelsArgs args{out.panels.data(), out.scales.data(), on_x.data(), n, width, order};
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

constexpr PanelOrder kOrders[] = {PanelOrder::swizzled, PanelOrder::tiles_by_row, PanelOrder::tiles_by_column};

TEST_P(Panels, HoldRowsAndZerosAfterThem) {
  constexpr uint32_t kWidth = 192, kRows = 70;
  const auto x = noise(kRows * kWidth);
  for (const PanelOrder order : kOrders) {
    const auto made = panels_of(x, kWidth, order);
    EXPECT_EQ(made.scales.values(), std::vector<float>(kRows, 1.0f));
    const auto got = made.panels.values();
    for (size_t r = 0; r < padded_to(kRows, kInputPanelRows); r++) {
      for (size_t i = 0; i < kWidth; i++) {
        const float expected = r < kRows ? to_float(to_f16(x[r * kWidth + i])) : 0.0f;
        ASSERT_EQ(element(got, r, i, kWidth, kInputPanelRows, order), expected) << "row " << r << ", column " << i;
      }
    }
  }
}

// As if rows had been scaled before. The width takes more than one sweep of a block.
TEST_P(Panels, ScaleRowsBeyondHalfPrecision) {
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
    if (info.use != DTypeUse::weight || !is_for_hopper(info.dtype)) continue;
    SCOPED_TRACE(info.name);
    const TestWeight w = weight(info.dtype, kOutputs, kWidth);
    const std::vector<uint8_t> before(size_t{3} * kWeightPanelRows * kWidth * 2, 0xFF);
    for (const PanelOrder order : kOrders) {
      if (order != PanelOrder::swizzled && info.dtype != DType::q6_k && info.dtype != DType::f16) continue;
      const auto out = put(before);
      decode_weight(out.data(), w, kFirst, kOutputs - kFirst, order);
      const auto got = out.values();
      for (size_t o = 0; o < size_t{2} * kWeightPanelRows; o++) {
        for (size_t i = 0; i < kWidth; i++) {
          const float expected = kFirst + o < kOutputs ? w.values[(kFirst + o) * kWidth + i] : 0.0f;
          ASSERT_NEAR(element(got, o, i, kWidth, kWeightPanelRows, order), expected, 2e-3 * std::abs(expected) + 1e-6);
        }
      }
      EXPECT_EQ(got[size_t{2} * kWeightPanelRows * kWidth * 2], 0xFF) << "more than whole panels";
    }
  }
}

TEST_P(Panels, MultiplyOnHopperLikeTheReference) {
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

TEST_P(Panels, MultiplyRowsBeyondHalfPrecision) {
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

class FragmentPanels : public Panels {
 protected:
  // The products of x with all parts' weights: a matrix of rows for each.
  struct Part {
    const TestWeight& w;
    std::vector<float> bias;
    uint32_t first_out, n;
  };
  std::vector<std::vector<float>> products(const std::vector<float>& x, const std::vector<Part>& parts) {
    const uint32_t width = parts[0].w.width;
    const auto n_rows = static_cast<uint32_t>(x.size() / width);
    const PanelOrder order = panel_order(device_->tile_order());
    const auto inputs = panels_of(x, width, order, matmul_fragments_rows(n_rows));
    uint32_t n_sets = 0;
    for (const Part& part : parts) n_sets += padded_to(part.n, kWeightPanelRows) / kWeightPanelRows;
    const uint64_t set_bytes = uint64_t{kWeightPanelRows} * width * 2;
    const OnDevice<uint8_t> weights(*device_, n_sets * set_bytes);
    MatmulPanelsArgs args{weights.data(), inputs.panels.data(), inputs.scales.data(), n_rows, width, 0, {}};
    std::vector<OnDevice<float>> outs, biases;
    uint32_t set = 0;
    for (const Part& part : parts) {
      decode_weight(weights.data() + set * set_bytes, part.w, part.first_out, part.n, order);
      set += padded_to(part.n, kWeightPanelRows) / kWeightPanelRows;
      outs.push_back(space(size_t{n_rows} * part.w.n_rows));
      biases.push_back(put(part.bias.empty() ? std::vector<float>(1) : part.bias));
      args.parts[args.n_parts++] = {outs.back().data(), part.bias.empty() ? nullptr : biases.back().data(),
                                    part.w.n_rows, part.first_out, part.n};
    }
    run("matmul_fragments", "matmul_fragments_" + std::to_string(matmul_fragments_rows(n_rows)),
        matmul_fragments_grid(n_sets, n_rows), kMatmulFragmentsThreads, args);
    std::vector<std::vector<float>> got;
    for (const auto& out : outs) got.push_back(out.values());
    return got;
  }
};

TEST_P(FragmentPanels, MultiplyAsTheReferenceDoes) {
  const TestWeight first = weight(DType::q4_k, 150, 256), second = weight(DType::q6_k, 70, 256);
  const auto bias = noise(150);
  for (const uint32_t n : {5u, 64u, 70u, 130u}) {
    SCOPED_TRACE(std::to_string(n) + " rows");
    const auto x = noise(size_t{n} * 256);
    const auto got = products(x, {{first, bias, 0, 150}, {second, {}, 6, 64}});
    std::vector<float> want_first, want_second, got_second;
    for (size_t r = 0; r < n; r++) {
      for (size_t o = 0; o < 150; o++) want_first.push_back(static_cast<float>(sum(first, x, r, o, bias)));
      for (size_t o = 6; o < 70; o++) {
        want_second.push_back(static_cast<float>(sum(second, x, r, o, {})));
        got_second.push_back(got[1][r * 70 + o]);
      }
    }
    EXPECT_LE(nmse(got[0], want_first), 1e-6);
    EXPECT_LE(nmse(got_second, want_second), 1e-6);
  }
}

// Every element of an operand has a value of its own: a wrong layout shows.
TEST_P(FragmentPanels, PlaceEveryElementOfBothOperands) {
  constexpr uint32_t kWidth = 64, kRows = 16, kOutputs = 16;
  TestWeight w = weight(DType::f16, kOutputs, kWidth);
  for (uint32_t column = 0; column < kWidth; column++) {
    std::vector<float> x(size_t{kRows} * kWidth);
    for (uint32_t r = 0; r < kRows; r++) x[r * kWidth + column] = static_cast<float>(r + 1);
    const auto got = products(x, {{w, {}, 0, kOutputs}})[0];
    for (uint32_t r = 0; r < kRows; r++) {
      for (uint32_t o = 0; o < kOutputs; o++) {
        ASSERT_FLOAT_EQ(got[r * kOutputs + o], static_cast<float>(r + 1) * w.values[o * kWidth + column])
            << "row " << r << ", output " << o << ", column " << column;
      }
    }
  }
}

TEST_P(FragmentPanels, MultiplyRowsTheSameInAnyCompany) {
  const TestWeight w = weight(DType::q4_k, 40, 512);
  const auto x = noise(size_t{150} * 512);
  const auto together = products(x, {{w, {}, 0, 40}})[0];
  const auto some = products({x.begin() + 512 * 9, x.begin() + 512 * 20}, {{w, {}, 0, 40}})[0];
  EXPECT_TRUE(std::ranges::equal(some, std::span(together).subspan(9 * 40, 11 * 40)));
}

TEST_P(FragmentPanels, MultiplyRowsBeyondHalfPrecision) {
  const TestWeight w = weight(DType::q4_k, 150, 512);
  for (const uint32_t n : {16u, 70u}) {
    check_large_rows(w, n, 2e-6, [&](const std::vector<float>& x) { return products(x, {{w, {}, 0, w.n_rows}})[0]; });
  }
}

INSTANTIATE_TEST_SUITE_P(, FragmentPanels, testing::all_devices());

}  // namespace
}  // namespace rocmforge::gpu
