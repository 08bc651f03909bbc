#pragma once
// What tests of products share: random weights of any format on the device, and their products in f64.

#include <algorithm>
#include <cmath>

#include "gpu/kernels/matmul_hopper.h"
#include "gpu/kernels/matvec.h"
#include "gpu/kernels/repack.h"
#include "support/kernel_device.h"

namespace rocmforge::gpu {

using testing::KernelTest;
using testing::OnDevice;

// A random weight: its blocks as a file holds them, its values, and itself on the device.
struct TestWeight {
  DType dtype;
  uint32_t n_rows, width;
  std::vector<uint8_t> blocks;
  std::vector<float> values;
  OnDevice<uint8_t> memory;
  Planes planes;
};

class Products : public KernelTest {
 protected:
  static std::string suffix(DType dtype) { return std::string(dtype_info(dtype).name); }

  // Random bytes are valid blocks of every format; scales are then given sensible values.
  TestWeight weight(DType dtype, uint32_t n_rows, uint32_t width) {
    const DTypeInfo& info = dtype_info(dtype);
    const size_t n_blocks = size_t{n_rows} * width / info.block_elements;
    std::vector<uint8_t> blocks(n_blocks * info.block_bytes);
    if (can_encode(dtype)) {
      ThreadPool pool(1);
      const auto from = noise(size_t{n_rows} * width);
      encode(std::as_writable_bytes(std::span(blocks)), dtype, from, width, pool).value();
    } else {
      fill_random(blocks, dtype, n_blocks);
    }
    return weight_of(dtype, n_rows, width, std::move(blocks));
  }

  TestWeight weight_of(DType dtype, uint32_t n_rows, uint32_t width, std::vector<uint8_t> blocks) {
    const size_t n_blocks = blocks.size() / dtype_info(dtype).block_bytes;
    std::vector<float> values(size_t{n_rows} * width);
    decode(values, dtype, std::as_bytes(std::span(blocks)));

    const PlaneTable table = plane_table(dtype);
    const PlaneOffsets offsets = plane_offsets(table, n_blocks);
    EXPECT_LE(offsets.total_bytes, blocks.size() * 1.03 + 4096);
    const OnDevice<uint8_t> raw = put(blocks);
    OnDevice<uint8_t> memory(*device_, offsets.total_bytes);
    RepackArgs args{{}, raw.data(), table, n_blocks};
    Planes planes{};
    for (uint32_t p = 0; p < table.n_planes; p++) planes.at[p] = args.planes[p] = memory.data() + offsets.at[p];
    run("repack", "repack", repack_grid(n_blocks), kRepackThreads, args);
    return {dtype, n_rows, width, std::move(blocks), std::move(values), std::move(memory), planes};
  }

  void fill_random(std::vector<uint8_t>& blocks, DType dtype, size_t n_blocks) {
    for (uint8_t& b : blocks) b = static_cast<uint8_t>(rng_());
    const DTypeInfo& info = dtype_info(dtype);
    for (size_t b = 0; b < n_blocks; b++) {
      uint8_t* block = blocks.data() + b * info.block_bytes;
      const auto set_half = [&](size_t at, float v) {
        const F16 h = to_f16(v);
        std::memcpy(block + at, &h, 2);
      };
      switch (dtype) {
        case DType::iq1_m:  // the block's scale is spread over the top nibbles of its last four words
          for (size_t i = 0; i < 4; i++)
            block[49 + 2 * i] = static_cast<uint8_t>((block[49 + 2 * i] & 0xF) | (0x2C00 >> 4 * i & 0xF) << 4);
          break;
        case DType::mxfp4:
          block[0] = static_cast<uint8_t>(120 + block[0] % 8);
          break;
        case DType::nvfp4:
          for (size_t i = 0; i < 4; i++) block[i] = static_cast<uint8_t>(0x20 + block[i] % 16);
          break;
        case DType::tq1_0:
        case DType::tq2_0:
          set_half(info.block_bytes - 2, 0.05f);
          break;
        default:
          set_half(0, 0.05f);
          break;
      }
    }
  }

  // Rows as wide as their weights, by the root of their mean square.
  static std::vector<float> normalised(std::span<const float> x, std::span<const float> weights, double epsilon) {
    const size_t width = weights.size();
    std::vector<float> out(x.size());
    for (size_t first = 0; first < x.size(); first += width) {
      double squares = 0;
      for (size_t i = 0; i < width; i++) squares += double{x[first + i]} * x[first + i];
      const double root = std::sqrt(squares / static_cast<double>(width) + epsilon);
      for (size_t i = 0; i < width; i++) out[first + i] = static_cast<float>(x[first + i] / root * weights[i]);
    }
    return out;
  }

  static std::vector<float> product(const TestWeight& w, std::span<const float> x, std::span<const float> bias) {
    const size_t n = x.size() / w.width;
    std::vector<float> out(n * w.n_rows);
    for (size_t r = 0; r < n; r++) {
      for (size_t o = 0; o < w.n_rows; o++) {
        double sum = bias.empty() ? 0.0 : bias[o];
        for (size_t i = 0; i < w.width; i++) sum += double{w.values[o * w.width + i]} * x[r * w.width + i];
        out[r * w.n_rows + o] = static_cast<float>(sum);
      }
    }
    return out;
  }

  // Every third row, from the first on, gets what no half can hold.
  static bool is_large(size_t row) { return row % 3 == 0; }
  static std::vector<float> with_large_rows(std::vector<float> x, size_t width, size_t first_kind) {
    for (size_t row = 0; row * width < x.size(); row += 3) {
      float* at = x.data() + row * width;
      switch ((row / 3 + first_kind) % kLargeKinds) {
        case 0:
          at[7] = 1e5f;
          break;
        case 1:
          at[width - 3] = -1e7f;
          break;
        case 2:
          at[width / 2] = 1e37f;
          break;
        case 3:
          at[0] = 65520.0f;  // the smallest that rounds to infinity
          break;
        default:
          for (size_t i = 0; i < width; i++) at[i] *= 1e5f;
      }
    }
    return x;
  }
  static constexpr size_t kLargeKinds = 5;

  // Rows scaled down by the power of two that brings their largest below 2^15 where a half cannot hold it, and what
  // undoes that.
  static std::pair<std::vector<float>, std::vector<float>> scaled_for_halves(std::vector<float> x, size_t width) {
    std::vector<float> undo;
    for (size_t row = 0; row * width < x.size(); row++) {
      const auto of_row = std::span(x).subspan(row * width, width);
      const float largest = std::abs(*std::ranges::max_element(of_row, {}, [](float v) { return std::abs(v); }));
      undo.push_back(largest < 65520 ? 1.0f : std::ldexp(1.0f, std::ilogb(largest) - 14));
      for (float& v : of_row) v /= undo.back();
    }
    return {x, undo};
  }

  // multiply(x) gives w's products with rows. Those with large elements have to be right, infinities and NaNs have to
  // show, and no other row may change by a bit.
  template <class Multiply>
  void check_large_rows(const TestWeight& w, uint32_t n, double tolerance, const Multiply& multiply,
                        size_t first_kind = 0) {
    const auto plain = noise(size_t{n} * w.width), x = with_large_rows(plain, w.width, first_kind);
    auto infinite = plain;
    infinite[5] = 1e5f;
    infinite[w.width - 1] = INFINITY;
    const std::vector<float> expected = product(w, x, {}), before = multiply(plain), got = multiply(x),
                             with_infinity = multiply(infinite);
    for (size_t row = 0; row < n; row++) {
      const auto of_row = [&](const std::vector<float>& all) {
        return std::span(all).subspan(row * w.n_rows, w.n_rows);
      };
      if (is_large(row)) {
        EXPECT_LE(testing::nmse(of_row(got), of_row(expected)), tolerance) << "row " << row << " of " << n;
      } else {
        EXPECT_TRUE(std::ranges::equal(of_row(got), of_row(before))) << "row " << row << " of " << n;
      }
      if (row == 0) {
        EXPECT_TRUE(std::ranges::none_of(of_row(with_infinity), [](float v) { return std::isfinite(v); }));
      } else {
        EXPECT_TRUE(std::ranges::equal(of_row(with_infinity), of_row(before))) << "row " << row << " of " << n;
      }
    }
  }

  std::vector<float> run_matvec(const TestWeight& w, const std::vector<float>& x, const std::vector<float>& bias,
                                uint32_t n_at_once) {
    const auto n = static_cast<uint32_t>(x.size() / w.width);
    const auto on_x = put(x);
    const auto on_bias = put(bias);
    const auto out = space(n * w.n_rows);
    MatvecArgs args{};
    args.w = w.planes;
    args.out = out.data();
    args.bias = bias.empty() ? nullptr : on_bias.data();
    args.x = on_x.data();
    args.pairs_per_input = 1;
    args.n_summed = 1;
    args.n_out = w.n_rows;
    args.n_rows = n;
    args.width = w.width;
    const bool is_integer = plane_table(w.dtype).n_planes > 1;
    const OnDevice<int8_t> q(*device_, x.size());
    const OnDevice<ActivationScale> scales(*device_, x.size() / 32 + 1);
    if (is_integer) {
      run("quantize", "quantize", quantize_grid(w.width, n), kQuantizeThreads,
          QuantizeArgs{q.data(), scales.data(), on_x.data(), w.width});
      args.q = q.data();
      args.scales = scales.data();
    }
    run(is_integer ? "matvec" : "matvec_float", "matvec_" + suffix(w.dtype) + "_" + std::to_string(n_at_once),
        matvec_grid(w.n_rows, n, n_at_once, device_->wave()), kMatvecThreads, args);
    return out.values();
  }

  // As tiles, on Hopper.
  std::vector<float> run_hopper(const TestWeight& w, const std::vector<float>& x, const float* bias,
                                const HopperShape& shape) {
    const auto n = static_cast<uint32_t>(x.size() / w.width);
    const auto on_x = put(x), scales = space(n), out = space(size_t{n} * w.n_rows);
    const OnDevice<uint8_t> tiles(*device_, size_t{padded_rows(n, shape.rows)} * w.width * 2);
    const TilesArgs args{tiles.data(), scales.data(), on_x.data(), n, w.width, shape.rows};
    run("tiles", "tiles_" + suffix(w.dtype), tiles_grid(args), kTilesThreads, args);
    run("matmul_hopper", "matmul_hopper_" + suffix(w.dtype) + "_" + std::to_string(shape.rows), shape.grid,
        kHopperThreads,
        HopperMatmulArgs{{{w.planes, out.data(), bias, w.n_rows}}, tiles.data(), scales.data(), n, w.width});
    return out.values();
  }

  static bool has_own_kernels(DType dtype) {
    return plane_table(dtype).n_planes > 1 || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
  }

  template <class F>
  static void each_format(F&& f) {
    for (const DTypeInfo& info : all_dtypes()) {
      if (info.use != DTypeUse::weight) continue;
      SCOPED_TRACE(info.name);
      f(info.dtype);
    }
  }
};

}  // namespace rocmforge::gpu
