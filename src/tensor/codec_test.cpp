#include "tensor/codec.h"

#include <gtest/gtest.h>

#include <bit>
#include <cctype>
#include <cmath>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "support/support.h"
#include "tensor/formats/all.h"
#include "tensor/weight_reference_test.h"

namespace rocmforge {
namespace {

using testing::data_path;
using testing::read_floats;
using testing::read_text;
using testing::seeded_rng;
using testing::WeightReference;

std::vector<DTypeInfo> weight_types() {
  std::vector<DTypeInfo> types;
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.use == DTypeUse::weight) types.push_back(info);
  }
  return types;
}

std::vector<float> decoded(DType dtype, std::span<const std::byte> blocks) {
  const DTypeInfo& info = dtype_info(dtype);
  std::vector<float> values(blocks.size() / info.block_bytes * info.block_elements);
  decode(values, dtype, blocks);
  return values;
}

// Equal bits; of NaNs only that both are.
bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

void expect_as_reference(const DTypeInfo& info, const std::vector<uint8_t>& block) {
  const std::vector<float> values = decoded(info.dtype, std::as_bytes(std::span(block)));
  const WeightReference reference(block.data());
  for (int i = 0; i < static_cast<int>(info.block_elements); i++) {
    const float expected = reference.weight(info.dtype, i);
    ASSERT_TRUE(same(values[i], expected)) << info.name << " weight " << i << ": " << values[i] << ", not " << expected;
  }
}

// CRC-32 as zlib has it.
uint32_t crc32(std::span<const uint8_t> bytes) {
  uint32_t crc = ~0u;
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0u);
  }
  return ~crc;
}

template <class Levels>
uint32_t crc32_of_levels(uint32_t n_entries, Levels levels, size_t n_bytes) {
  std::vector<uint8_t> bytes;
  for (uint32_t index = 0; index < n_entries; index++) {
    const uint64_t word = levels(index);
    for (size_t j = 0; j < n_bytes; j++) bytes.push_back(static_cast<uint8_t>(word >> 8 * j));
  }
  return crc32(bytes);
}

TEST(Codec, ThereAre28WeightTypes) {
  EXPECT_EQ(weight_types().size(), 28u);
}

TEST(Codec, BlockStructsHaveTheSizesOfTheTable) {
  for (const DTypeInfo& info : weight_types()) {
    formats::with_format(info.dtype, [&]<class Block>() {
      EXPECT_EQ(sizeof(Block), info.block_bytes) << info.name;
      EXPECT_EQ(static_cast<uint32_t>(Block::kElements), info.block_elements) << info.name;
    });
  }
}

TEST(Codec, DecodesAHandMadeBlock) {
  uint8_t block[18] = {0x00, 0x38};  // d = 0.5
  block[2] = 0xF0;                   // weight 0: 0 - 8;  weight 16: 15 - 8
  block[17] = 0x8A;                  // weight 15: 10 - 8;  weight 31: 8 - 8
  const std::vector<float> values = decoded(DType::q4_0, std::as_bytes(std::span(block)));
  EXPECT_EQ(values[0], -4.0f);
  EXPECT_EQ(values[16], 3.5f);
  EXPECT_EQ(values[15], 1.0f);
  EXPECT_EQ(values[31], 0.0f);
  EXPECT_EQ(values[1], -4.0f);
}

TEST(Codec, DecodesNothingFromNothing) {
  for (const DTypeInfo& info : weight_types()) decode({}, info.dtype, {});
}

TEST(Codec, DecodesAtAnyAddress) {
  std::mt19937_64 rng = seeded_rng();
  for (const DTypeInfo& info : weight_types()) {
    std::vector<std::byte> blocks(3 * info.block_bytes);
    for (std::byte& byte : blocks) byte = static_cast<std::byte>(rng());
    std::vector<std::byte> shifted(1);
    shifted.insert(shifted.end(), blocks.begin(), blocks.end());
    const std::vector<float> expected = decoded(info.dtype, blocks);
    const std::vector<float> values = decoded(info.dtype, std::span(shifted).subspan(1));
    for (size_t i = 0; i < values.size(); i++) ASSERT_TRUE(same(values[i], expected[i])) << info.name << ' ' << i;
  }
}

// Every value of every byte of a block: so every code of every field, at every position, except codebook indices that
// span two bytes (see the codebook test).
TEST(Codec, DecodesEveryByteLikeTheReference) {
  std::mt19937_64 rng = seeded_rng();
  for (const DTypeInfo& info : weight_types()) {
    std::vector<uint8_t> block(info.block_bytes);
    for (uint8_t& byte : block) byte = static_cast<uint8_t>(rng());
    for (uint8_t& byte : block) {
      const uint8_t before = byte;
      for (int value = 0; value < 256; value++) {
        byte = static_cast<uint8_t>(value);
        expect_as_reference(info, block);
        if (HasFatalFailure()) return;
      }
      byte = before;
    }
  }
}

TEST(Codec, DecodesRandomBlocksLikeTheReference) {
  std::mt19937_64 rng = seeded_rng();
  for (const DTypeInfo& info : weight_types()) {
    std::vector<uint8_t> block(info.block_bytes);
    for (int round = 0; round < 500; round++) {
      for (uint8_t& byte : block) byte = static_cast<uint8_t>(rng());
      expect_as_reference(info, block);
      if (HasFatalFailure()) return;
    }
  }
}

// The checksums are those of llama.cpp's tables, which hold one byte per level (b21e4de, ggml-common.h).
TEST(Codec, CodebooksHoldThePublishedLevels) {
  using namespace formats;
  const auto iq1 = [](uint32_t i) {
    // 0, 1, 2 -> -1, 0, 1 in each byte: borrowing is kept away by a high bit that is taken out again.
    return ((spread_8x2(iq1_code(i)) | 0x80 * kEachByte) - kEachByte) ^ 0x80 * kEachByte;
  };
  EXPECT_EQ(crc32_of_levels(2048, iq1, 8), 0xB85E6CCFu);
  EXPECT_EQ(crc32_of_levels(256, [](uint32_t i) { return iq2_magnitudes(iq2_xxs_code(i)); }, 8), 0x9924FF02u);
  EXPECT_EQ(crc32_of_levels(512, [](uint32_t i) { return iq2_magnitudes(iq2_xs_code(i)); }, 8), 0xFA1E1BFDu);
  EXPECT_EQ(crc32_of_levels(1024, [](uint32_t i) { return iq2_magnitudes(iq2_s_code(i)); }, 8), 0x25AE5BF1u);
  EXPECT_EQ(crc32_of_levels(
                256, [](uint32_t i) { return iq3_xxs_magnitudes(iq3_xxs_code(i), iq3_xxs_code(0)); }, 4),
            0x07BA9ED0u);
  const auto iq3_s = [](uint32_t i) { return iq3_s_magnitudes(iq3_s_code(i), 0); };
  EXPECT_EQ(crc32_of_levels(512, iq3_s, 4), 0xF576E4F3u);
}

TEST(Codec, DecodesTheReferencesBlocksToItsBits) {
  for (const DTypeInfo& info : weight_types()) {
    if (info.dtype == DType::f32) continue;  // the bytes are the floats
    std::string name(info.name);
    if (name.ends_with("_k")) name.back() = 'K';
    const std::string blocks = read_text(data_path("blocks/" + name + ".blocks"));
    const std::vector<float> expected = read_floats(data_path("blocks/" + name + ".f32"));
    const std::vector<float> values = decoded(info.dtype, as_bytes(blocks));
    ASSERT_EQ(values.size(), expected.size()) << name;
    ASSERT_EQ(values.size(), 1024u) << name;
    for (size_t i = 0; i < values.size(); i++) {
      ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(expected[i])) << name << ' ' << i;
    }
  }
}

TEST(CodecDeathTest, RefusesWhatIsNoWeightAndSizesThatDoNotMatch) {
  std::vector<float> to(32);
  std::vector<std::byte> from(36);
  EXPECT_DEATH(decode(to, DType::q8_1, from), "not a weight type");
  EXPECT_DEATH(decode(to, DType::q4_0, from), "CHECK|n_blocks");
  EXPECT_DEATH(decode(std::span(to).first(31), DType::q4_0, std::span(from).first(18)), "CHECK|n_blocks");
}

}  // namespace
}  // namespace rocmforge
