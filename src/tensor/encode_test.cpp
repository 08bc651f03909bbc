#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/support.h"
#include "tensor/codec.h"
#include "tensor/encode_samples_test.h"
#include "tensor/formats/all.h"

namespace rocmforge {
namespace {

using testing::data_path;
using testing::read_floats;
using testing::seeded_rng;

constexpr std::array kEncodable = {DType::f32,  DType::f16,    DType::bf16,   DType::q4_0, DType::q4_1, DType::q5_0,
                                   DType::q5_1, DType::q8_0,   DType::q2_k,   DType::q3_k, DType::q4_k, DType::q5_k,
                                   DType::q6_k, DType::iq4_nl, DType::iq4_xs, DType::mxfp4};

std::string name_of(DType dtype) {
  return std::string(dtype_info(dtype).name);
}

size_t encoded_bytes(DType dtype, size_t n) {
  const DTypeInfo& info = dtype_info(dtype);
  return n / info.block_elements * info.block_bytes;
}

std::vector<std::byte> encoded(DType dtype, std::span<const float> values, size_t n_threads = 1) {
  ThreadPool pool(n_threads);
  std::vector<std::byte> bytes(encoded_bytes(dtype, values.size()));
  const Result<void> result = encode(bytes, dtype, values, values.size(), pool);
  EXPECT_TRUE(result.ok()) << result.error().message;
  return bytes;
}

std::vector<float> decoded(DType dtype, std::span<const std::byte> bytes) {
  const DTypeInfo& info = dtype_info(dtype);
  std::vector<float> values(bytes.size() / info.block_bytes * info.block_elements);
  decode(values, dtype, bytes);
  return values;
}

std::vector<float> there_and_back(DType dtype, std::span<const float> values) {
  return decoded(dtype, encoded(dtype, values));
}

double energy(std::span<const float> x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return sum;
}

double squared_error(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); i++) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return sum;
}

// Over rows of 1024, so that every row counts the same whatever its scale.
double mean_relative_error(std::span<const float> x, std::span<const float> y) {
  constexpr size_t n = EncodeSamples::kColumns;
  double sum = 0;
  for (size_t i = 0; i < x.size(); i += n)
    sum += squared_error(x.subspan(i, n), y.subspan(i, n)) / energy(x.subspan(i, n));
  return sum / static_cast<double>(x.size() / n);
}

TEST(Encode, KnowsItsTypes) {
  for (const DTypeInfo& info : all_dtypes()) {
    const bool expected = std::find(kEncodable.begin(), kEncodable.end(), info.dtype) != kEncodable.end();
    EXPECT_EQ(can_encode(info.dtype), expected) << info.name;
  }
}

TEST(Encode, EncodesAHandMadeBlock) {
  std::vector<float> values(32);
  values[0] = -4.0f;
  values[15] = 1.0f;
  values[16] = 3.5f;
  const std::vector<std::byte> bytes = encoded(DType::q4_0, values);
  EXPECT_EQ(std::to_integer<int>(bytes[0]), 0x00);
  EXPECT_EQ(std::to_integer<int>(bytes[1]), 0x38);   // d = 0.5
  EXPECT_EQ(std::to_integer<int>(bytes[2]), 0xF0);   // weight 0: 0 - 8;  weight 16: 15 - 8
  EXPECT_EQ(std::to_integer<int>(bytes[3]), 0x88);   // zeros
  EXPECT_EQ(std::to_integer<int>(bytes[17]), 0x8A);  // weight 15: 10 - 8
}

TEST(Encode, EncodesNothing) {
  ThreadPool pool(2);
  for (const DType dtype : kEncodable) EXPECT_TRUE(encode({}, dtype, {}, 256, pool).ok());
}

TEST(Encode, RoundsFloatsToNearestAndNeverToInfinity) {
  const std::vector<float> values = {1.0f, 1.0f + 0x1p-11f, 65519.0f, 1e6f, -1e6f, FLT_MAX, -FLT_MAX, 0x1p-25f, -0.0f};
  const std::vector<float> f16 = {1.0f, 1.0f, 65504.0f, 65504.0f, -65504.0f, 65504.0f, -65504.0f, 0.0f, -0.0f};
  EXPECT_EQ(there_and_back(DType::f16, values), f16);
  EXPECT_EQ(there_and_back(DType::f32, values), values);
  const std::vector<float> bf16 = there_and_back(DType::bf16, values);
  EXPECT_EQ(bf16[1], 1.0f);
  EXPECT_EQ(bf16[3], 999424.0f);
  EXPECT_EQ(bf16[5], 0x1.FEp127f);
  EXPECT_EQ(bf16[6], -0x1.FEp127f);
}

// --- Every code ---

// Values that a type holds exactly come back exactly, whatever the codes they need and wherever they stand.
void expect_exact(DType dtype, const std::vector<float>& levels, float scale, float offset = 0) {
  for (size_t turn = 0; turn < levels.size(); turn++) {
    std::vector<float> values(std::max<size_t>(32, levels.size()));
    for (size_t i = 0; i < values.size(); i++) values[i] = scale * levels[(i + turn) % levels.size()] + offset;
    EXPECT_EQ(there_and_back(dtype, values), values) << name_of(dtype) << " turned by " << turn;
  }
}

std::vector<float> whole_numbers(int low, int high) {
  std::vector<float> levels;
  for (int level = low; level <= high; level++) levels.push_back(static_cast<float>(level));
  return levels;
}

TEST(Encode, FindsEveryCodeOfTheScalarTypes) {
  for (const float scale : {1.0f, -0.125f, 0x1p-20f, 384.0f}) {
    expect_exact(DType::q4_0, whole_numbers(-8, 7), scale);
    expect_exact(DType::q5_0, whole_numbers(-16, 15), scale);
    expect_exact(DType::q4_1, whole_numbers(0, 15), scale, 32 * scale);
    expect_exact(DType::q5_1, whole_numbers(0, 31), scale, -64 * scale);
    std::vector<float> levels;
    for (int code = 0; code < 16; code++) levels.push_back(static_cast<float>(formats::iq4_level(code)));
    expect_exact(DType::iq4_nl, levels, scale);
  }
  for (const float scale : {1.0f, -0.125f, 0x1p-100f, 0x1p+100f}) {
    expect_exact(DType::mxfp4, {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}, scale);
  }
  for (int code = -126; code <= 126; code++) {  // beside 127, which fixes the scale
    std::vector<float> values(32, 0.25f * static_cast<float>(code));
    values[static_cast<size_t>(code + 127) % 32] = 0.25f * 127;
    EXPECT_EQ(there_and_back(DType::q8_0, values), values);
  }
}

TEST(Encode, FindsEveryCodeOfTheSuperBlocks) {
  struct Case {
    DType dtype;
    size_t part;                // elements
    std::vector<float> levels;  // of one part
    float n_scales;
  };
  std::vector<float> iq4;
  for (int code = 0; code < 16; code++) iq4.push_back(static_cast<float>(formats::iq4_level(code)));
  const std::vector<Case> cases = {
      {DType::q2_k, 16, whole_numbers(-1, 2), 15},    {DType::q3_k, 16, whole_numbers(-4, 3), 32},
      {DType::q4_k, 32, whole_numbers(-5, 10), 63},   {DType::q5_k, 32, whole_numbers(-9, 22), 63},
      {DType::q6_k, 16, whole_numbers(-32, 31), 128}, {DType::iq4_xs, 32, iq4, 32},
  };
  for (const Case& c : cases) {
    // Parts of different scales, every level in turn; the largest scale, -limit or limit, is always among them. The
    // scale of a part with a few levels is not always the one it was made with, so values come back nearly, not
    // exactly.
    for (int scale = 1; scale <= static_cast<int>(c.n_scales); scale++) {
      std::vector<float> values(256);
      for (size_t i = 0; i < 256; i++) {
        const size_t part = i / c.part;
        const float s = part % 2 == 0 ? c.n_scales : static_cast<float>(scale);
        values[i] = s * c.levels[(i + i / 64 * 16) % c.levels.size()] * 0x1p-6f;
      }
      const std::vector<float> back = there_and_back(c.dtype, values);
      EXPECT_LT(squared_error(values, back), 4e-4 * energy(values)) << name_of(c.dtype) << ", scale " << scale;
    }
  }
}

TEST(Encode, PacksEveryScaleOfQ4KAndQ5K) {
  for (int scale = 0; scale < 64; scale++) {
    for (int minimum = 0; minimum < 64; minimum++) {
      for (int at = 0; at < 8; at++) {
        formats::KScale scales[8];
        for (int s = 0; s < 8; s++)
          scales[s] = {static_cast<uint8_t>(s == at ? scale : 63 - scale), static_cast<uint8_t>(minimum)};
        uint8_t packed[12];
        formats::store_k_scales(packed, scales);
        for (int s = 0; s < 8; s++) {
          const formats::KScale loaded = formats::load_k_scale(packed, s);
          ASSERT_EQ(loaded.scale, scales[s].scale);
          ASSERT_EQ(loaded.minimum, scales[s].minimum);
        }
      }
    }
  }
}

// --- Error ---

TEST(Encode, LosesNoMoreThanTheReferenceOnItsBlocks) {
  const std::vector<float> source = read_floats(data_path("blocks/source.f32"));
  for (const DType dtype : kEncodable) {
    if (dtype == DType::f32) continue;
    std::string name = name_of(dtype);
    if (name.ends_with("_k")) name.back() = 'K';
    const double reference = squared_error(source, read_floats(data_path("blocks/" + name + ".f32")));
    EXPECT_LE(squared_error(source, there_and_back(dtype, source)), 1.05 * reference) << name;
  }
}

TEST(Encode, LosesNoMoreThanTheReferenceOnSamples) {
  for (const EncodeSamples& samples : encode_samples()) {
    for (const ReferenceError& reference : kReferenceErrors) {
      const double error = mean_relative_error(samples.values, there_and_back(reference.dtype, samples.values));
      EXPECT_LE(error, 1.05 * reference.of(samples.kind)) << name_of(reference.dtype) << ", " << samples.name;
    }
  }
}

TEST(Encode, KeepsWhatItEncodedOnce) {
  const EncodeSamples samples = encode_samples()[0];
  for (const DType dtype : kEncodable) {
    const std::vector<std::byte> bytes = encoded(dtype, samples.values);
    const std::vector<float> once = decoded(dtype, bytes);
    switch (dtype) {
      case DType::f32:
      case DType::f16:
      case DType::bf16:
      case DType::q8_0:
      case DType::mxfp4:
        EXPECT_EQ(encoded(dtype, once), bytes) << name_of(dtype);
        break;
      default: {
        // The search may end in another scale, as long as the values stay close.
        const double again = squared_error(once, there_and_back(dtype, once));
        EXPECT_LE(again, 0.35 * squared_error(samples.values, once)) << name_of(dtype);
      }
    }
  }
}

// --- Threads ---

TEST(Encode, GivesTheSameBytesForEveryThreadCountAndSplit) {
  const std::vector<float> values = encode_samples()[1].values;
  for (const DType dtype : kEncodable) {
    const std::vector<std::byte> whole = encoded(dtype, values);
    for (const size_t n_threads : {2, 3, 5}) EXPECT_EQ(encoded(dtype, values, n_threads), whole) << name_of(dtype);
    std::vector<std::byte> pieces;
    for (size_t i = 0; i < values.size(); i += 256) {
      const std::vector<std::byte> piece = encoded(dtype, std::span(values).subspan(i, 256));
      pieces.insert(pieces.end(), piece.begin(), piece.end());
    }
    EXPECT_EQ(pieces, whole) << name_of(dtype);
  }
}

// A model quantized twice, by builds of different compilers, is the same file. A better search changes the number.
TEST(Encode, GivesTheSameBytesForEveryCompiler) {
  uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a
  for (const EncodeSamples& samples : encode_samples()) {
    for (const DType dtype : kEncodable) {
      for (const std::byte byte : encoded(dtype, samples.values)) {
        hash = (hash ^ std::to_integer<uint64_t>(byte)) * 0x100000001B3u;
      }
    }
  }
  EXPECT_EQ(hash, 0x9843509D129D2D2Eu);
}

// --- Odd input ---

TEST(Encode, KeepsZeros) {
  for (const DType dtype : kEncodable) {
    for (const float zero : {0.0f, -0.0f}) {
      for (const float v : there_and_back(dtype, std::vector<float>(256, zero))) EXPECT_EQ(v, 0.0f) << name_of(dtype);
    }
  }
}

TEST(Encode, KeepsConstants) {
  for (const DType dtype : kEncodable) {
    // MXFP4 has no level between 4 and 6; f16 is coarse for the units of small super-blocks (0.01 / 127 / 32).
    const float tolerance = dtype == DType::mxfp4 ? 0.2f : 0x1p-6f;
    for (const float v : {1.0f, -1.0f, 0.3f, -0.3f, 1000.0f, -0.01f}) {
      for (const float back : there_and_back(dtype, std::vector<float>(256, v))) {
        EXPECT_NEAR(back, v, tolerance * std::fabs(v)) << name_of(dtype);
      }
    }
  }
}

TEST(Encode, KeepsANarrowRangeFarFromZero) {
  std::vector<float> values(256);
  for (size_t i = 0; i < 256; i++) values[i] = 100.0f + 0.25f * static_cast<float>(i % 16);
  EXPECT_EQ(there_and_back(DType::q4_1, values), values);
  EXPECT_EQ(there_and_back(DType::q5_1, values), values);
}

// Finite, and never worse than all zeros.
void expect_sane(DType dtype, const std::vector<float>& values, const std::string& what) {
  const std::vector<float> back = there_and_back(dtype, values);
  for (size_t i = 0; i < back.size(); i++)
    ASSERT_TRUE(std::isfinite(back[i])) << name_of(dtype) << ", " << what << ' ' << i;
  EXPECT_LE(squared_error(values, back), 1.0001 * energy(values)) << name_of(dtype) << ", " << what;
}

TEST(Encode, SurvivesOddBlocks) {
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  for (const DType dtype : kEncodable) {
    const auto block = [&](const std::string& what, auto value) {
      std::vector<float> values(256);
      for (size_t i = 0; i < 256; i++) values[i] = value(i);
      expect_sane(dtype, values, what);
    };
    for (const float large : {1e4f, 1e6f, 1e10f, 1e30f, FLT_MAX}) {
      for (const float sign : {1.0f, -1.0f}) {
        block("one outlier", [&](size_t i) { return i == 77 ? sign * large : 0.01f; });
        block("an outlier among zeros", [&](size_t i) { return i == 77 ? sign * large : 0.0f; });
        block("an outlier among denormals", [&](size_t i) { return i == 255 ? sign * large : kTiny; });
        block("all large", [&](size_t) { return sign * large; });
        block("large, signs alternating", [&](size_t i) { return i % 2 == 0 ? large : -large; });
        block("one small opposite", [&](size_t i) { return i == 3 ? -sign * 1e-3f : sign * large; });
      }
    }
    for (float small = 1e-3f; small > 0; small *= 0.3f) {
      block("small", [&](size_t i) { return small * static_cast<float>(i % 7); });
      block("small, signs alternating", [&](size_t i) { return i % 2 == 0 ? small : -small; });
      block("small beside large", [&](size_t i) { return i < 128 ? small : -3.0f; });
    }
    block("denormals", [&](size_t i) { return kTiny * static_cast<float>(i); });
    block("signs alternating", [](size_t i) { return i % 2 == 0 ? 1.0f : -1.0f; });
    block("two values", [](size_t i) { return i % 5 == 0 ? 0.9f : -0.1f; });
  }
}

TEST(Encode, SurvivesFloatsOfEveryMagnitude) {
  std::mt19937_64 rng = seeded_rng();
  for (const DType dtype : kEncodable) {
    for (int round = 0; round < 200; round++) {
      const int lowest = static_cast<int>(rng() % 250);
      const uint64_t n_exponents = 1 + rng() % static_cast<uint64_t>(255 - lowest);
      std::vector<float> values(256);
      for (float& v : values) {
        const auto exponent = static_cast<uint32_t>(lowest) + static_cast<uint32_t>(rng() % n_exponents);
        v = std::bit_cast<float>(exponent << 23 | (static_cast<uint32_t>(rng()) & 0x807FFFFFu));
      }
      expect_sane(dtype, values, "exponents from " + std::to_string(lowest));
      if (HasFailure()) return;
    }
  }
}

TEST(Encode, NamesTheFirstElementThatIsNotFinite) {
  ThreadPool pool(3);
  std::vector<float> values(64 * 1024, 0.5f);
  for (const DType dtype : kEncodable) {
    std::vector<std::byte> bytes(encoded_bytes(dtype, values.size()));
    for (const float bad : {INFINITY, -INFINITY, NAN}) {
      for (const size_t at : {size_t{0}, size_t{1023}, size_t{40000}, values.size() - 1}) {
        values[at] = bad;
        values.back() = -bad;
        const Result<void> result = encode(bytes, dtype, values, 1024, pool);
        ASSERT_FALSE(result.ok());
        EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
        const std::string where = "row " + std::to_string(at / 1024) + ", column " + std::to_string(at % 1024) + ":";
        EXPECT_NE(result.error().message.find(where), std::string::npos) << result.error().message;
        EXPECT_NE(result.error().message.find(name_of(dtype)), std::string::npos) << result.error().message;
        values[at] = 0.5f;
        values.back() = 0.5f;
      }
    }
    EXPECT_TRUE(encode(bytes, dtype, values, 1024, pool).ok());
  }
}

TEST(EncodeDeathTest, RefusesTypesWithoutEncoderAndSizesThatDoNotMatch) {
  ThreadPool pool(1);
  const std::vector<float> from(512);
  std::vector<std::byte> to(288);
  EXPECT_DEATH((void)encode(to, DType::iq2_s, from, 256, pool).ok(), "can_encode");
  EXPECT_DEATH((void)encode(to, DType::q4_k, from, 128, pool).ok(), "n_per_row");
  EXPECT_DEATH((void)encode(std::span(to).first(287), DType::q4_k, from, 256, pool).ok(), "to.size");
}

}  // namespace
}  // namespace rocmforge
