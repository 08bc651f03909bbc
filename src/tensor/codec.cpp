#include "tensor/codec.h"

#include "base/bytes.h"
#include "tensor/formats/all.h"

namespace rocmforge {
namespace {

template <class Block>
void decode_blocks(std::span<float> to, std::span<const std::byte> from) {
  const size_t n_blocks = to.size() / Block::kElements;
  CHECK(n_blocks * Block::kElements == to.size() && n_blocks * sizeof(Block) == from.size());
  for (size_t i = 0; i < n_blocks; i++) {
    // A copy: the bytes of a file may lie at any address.
    const auto block = load_le<Block>(from.data() + i * sizeof(Block));
    formats::decode(to.data() + i * Block::kElements, block);
  }
}

}  // namespace

void decode(std::span<float> to, DType dtype, std::span<const std::byte> from) {
  formats::with_format(dtype, [&]<class Block>() { decode_blocks<Block>(to, from); });
}

}  // namespace rocmforge
