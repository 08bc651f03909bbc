#include "gguf/random_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/formats/all.h"

namespace rocmforge::gguf {
namespace {

using namespace formats;

// How many levels a weight with a minimum has: its mean level, times the scale, is what the minimum takes away.
template <class Block>
constexpr float mean_level() {
  if constexpr (std::same_as<Block, Q2K>) return 1.5f;
  if constexpr (std::same_as<Block, Q4K> || std::same_as<Block, Q4_1>) return 7.5f;
  if constexpr (std::same_as<Block, Q5K> || std::same_as<Block, Q5_1>) return 15.5f;
}

// Gives the block the scale d, rounded to what the format can hold.
template <class Block>
void set_scale(Block& block, float d) {
  if constexpr (requires { block.value; }) {
    // A plain float is its own scale: see fill.
  } else if constexpr (std::same_as<Block, Iq1M>) {
    const uint32_t bits = to_f16(d).bits;
    for (int i = 0; i < 4; i++) {
      block.scales[i] = static_cast<uint16_t>((block.scales[i] & 0x0FFFu) | (bits >> 4 * i & 0xFu) << 12);
    }
  } else if constexpr (std::same_as<Block, Mxfp4>) {
    block.e = static_cast<uint8_t>(127 + std::ilogb(d));
  } else if constexpr (std::same_as<Block, Nvfp4>) {
    // UE4M3: a subnormal, a multiple of 2^-9, or a power of two.
    const int code = d < 0x1p-6f ? std::max(1, static_cast<int>(std::lround(d * 512))) : (std::ilogb(d) + 7) << 3;
    std::fill(std::begin(block.d), std::end(block.d), static_cast<uint8_t>(code));
  } else {
    block.d = to_f16(d);
    if constexpr (requires { block.dmin; }) block.dmin = to_f16(d * mean_level<Block>());
    if constexpr (requires { block.m; }) block.m = to_f16(-d * mean_level<Block>());
  }
}

template <class Block>
void fill(Block& block, RandomBits& random) {
  if constexpr (std::same_as<Block, PlainF32>) {
    block.value = kWeightDeviation * random.normal();
  } else if constexpr (std::same_as<Block, PlainF16>) {
    block.value = to_f16(kWeightDeviation * random.normal());
  } else if constexpr (std::same_as<Block, PlainBf16>) {
    block.value = to_bf16(kWeightDeviation * random.normal());
  } else {
    uint64_t bits[(sizeof(Block) + 7) / 8];
    for (uint64_t& word : bits) word = random.next();
    std::memcpy(&block, bits, sizeof block);
  }
}

// The deviation of the decoded weights when every block has scale 1, from a sample.
template <class Block>
float unit_deviation(const std::vector<Block>& blocks) {
  double sum = 0;
  const size_t n = std::min<size_t>(blocks.size(), 256);
  for (size_t i = 0; i < n; i++) {
    Block block = blocks[i];
    set_scale(block, 1.0f);
    float values[Block::kElements];
    decode(values, block);
    for (float v : values) sum += double{v} * v;
  }
  return static_cast<float>(std::sqrt(sum / static_cast<double>(n * Block::kElements)));
}

template <class Block>
std::vector<std::byte> make(size_t n_blocks, RandomBits& random) {
  std::vector<Block> blocks(n_blocks);
  for (Block& block : blocks) fill(block, random);
  if constexpr (Block::kElements > 1) {
    const float d = n_blocks == 0 ? 0 : kWeightDeviation / unit_deviation(blocks);
    for (Block& block : blocks) set_scale(block, d);
  }
  std::vector<std::byte> bytes(n_blocks * sizeof(Block));
  std::memcpy(bytes.data(), blocks.data(), bytes.size());
  return bytes;
}

}  // namespace

float RandomBits::normal() {
  const uint64_t bits = next();
  float sum = -2.0f + 2.0f / 65536;
  for (int i = 0; i < 4; i++) sum += static_cast<float>(bits >> 16 * i & 0xFFFF) / 65536;
  return sum * std::sqrt(3.0f);  // four uniforms have the variance 4 / 12
}

std::vector<std::byte> random_blocks(DType dtype, size_t n_blocks, RandomBits& random) {
  return formats::with_format(dtype, [&]<class Block>() { return make<Block>(n_blocks, random); });
}

}  // namespace rocmforge::gguf
