#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/bytes.h"
#include "base/check.h"
#include "tensor/codec.h"
#include "tensor/formats/all.h"

namespace rocmforge {
namespace {

template <class Block>
concept Encodable = requires(Block& block, const float* from) { formats::encode(block, from); };

// A multiple of every block_elements; small enough that the floats stay in cache between the check and the encoding.
constexpr size_t kPartElements = 8192;

// The first element that is not finite, or from.size().
size_t first_not_finite(std::span<const float> from) {
  uint32_t largest = 0;
  for (const float v : from) largest = std::max(largest, float_to_bits(v) & 0x7FFFFFFFu);
  if (largest < 0x7F800000u) return from.size();
  return static_cast<size_t>(std::find_if(from.begin(), from.end(), [](float v) { return !std::isfinite(v); }) -
                             from.begin());
}

template <class Block>
void encode_blocks(std::byte* to, std::span<const float> from) {
  for (size_t i = 0; i < from.size() / Block::kElements; i++) {
    Block block;
    formats::encode(block, from.data() + i * Block::kElements);
    store_le(to + i * sizeof(Block), block);
  }
}

template <class Block>
Result<void> encode_parts(std::span<std::byte> to, DType dtype, std::span<const float> from, size_t n_per_row,
                          ThreadPool& pool) {
  static_assert(kPartElements % Block::kElements == 0);
  CHECK(n_per_row > 0 && n_per_row % Block::kElements == 0 && from.size() % n_per_row == 0);
  CHECK(to.size() == from.size() / Block::kElements * sizeof(Block));

  std::atomic<size_t> bad = from.size();
  pool.run((from.size() + kPartElements - 1) / kPartElements, [&](size_t part) {
    const size_t begin = part * kPartElements;
    const std::span<const float> floats = from.subspan(begin, std::min(kPartElements, from.size() - begin));
    const size_t at = first_not_finite(floats);
    if (at == floats.size()) {
      encode_blocks<Block>(to.data() + begin / Block::kElements * sizeof(Block), floats);
      return;
    }
    size_t lowest = bad.load();
    while (begin + at < lowest && !bad.compare_exchange_weak(lowest, begin + at)) {
    }
  });
  if (bad == from.size()) return {};
  return Error{ErrorCode::invalid_argument,
               fmt::format("tensor: row {}, column {}: {} cannot be encoded as {}", bad / n_per_row, bad % n_per_row,
                           from[bad], dtype_info(dtype).name)};
}

}  // namespace

bool can_encode(DType dtype) {
  if (dtype_info(dtype).use != DTypeUse::weight) return false;
  return formats::with_format(dtype, []<class Block>() { return Encodable<Block>; });
}

Result<void> encode(std::span<std::byte> to, DType dtype, std::span<const float> from, size_t n_per_row,
                    ThreadPool& pool) {
  CHECK(can_encode(dtype));
  return formats::with_format(dtype, [&]<class Block>() -> Result<void> {
    if constexpr (Encodable<Block>) {
      return encode_parts<Block>(to, dtype, from, n_per_row, pool);
    } else {
      RF_UNREACHABLE("tensor: no encoder for this type");
    }
  });
}

}  // namespace rocmforge
