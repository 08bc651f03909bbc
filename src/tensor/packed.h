#pragma once
// Packed layouts: how CPU kernels want the rows of a matrix to lie. One rule serves every format.
//
// Eight rows are interleaved, block by block. A packed group holds the same block of eight rows, cut into pieces and
// stored piece by piece, each piece for all eight rows before the next:
//
//   head   0, 1 or 2 bytes    a leading scale that leaves the rest of the block unaligned (Q4_0, Q8_0, MXFP4 ...)
//   words  4 bytes each       everything else; one piece of eight rows fills a 256-bit register, one row per lane
//   tail   0 or 2 bytes       a trailing scale (Q3_K, Q6_K)
//
//   Q4_0, 18 bytes per block, 144 per group:
//     bytes 0 .. 15         d of row 0, d of row 1, ... d of row 7
//     bytes 16 .. 47        qs[0..3] of row 0, qs[0..3] of row 1, ... of row 7
//     bytes 48 .. 79        qs[4..7] of row 0, ...
//
// The groups of eight rows follow each other along the row and make a unit; units follow each other down the matrix. So
// a packed matrix takes exactly the bytes of the file, a unit begins where the file's first row of it would, and the
// rows after the last whole unit stay as they are.
//
// Bits keep their place inside a block: tensor/formats spells them.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "tensor/dtype.h"

namespace rocmforge {

inline constexpr size_t kPackedRows = 8;

struct PackedCut {
  size_t head_bytes = 0;
  size_t n_words = 0;
  size_t tail_bytes = 0;

  constexpr size_t block_bytes() const { return head_bytes + 4 * n_words + tail_bytes; }
  constexpr size_t group_bytes() const { return kPackedRows * block_bytes(); }
  constexpr size_t words_at() const { return kPackedRows * head_bytes; }                 // offset in the group
  constexpr size_t tail_at() const { return kPackedRows * (head_bytes + 4 * n_words); }  // offset in the group
};

// How blocks of this type are cut; nullopt for types without a packed layout.
constexpr std::optional<PackedCut> packed_cut(DType dtype) {
  switch (dtype) {
    case DType::q4_0:
    case DType::iq4_nl:
      return PackedCut{2, 4, 0};
    case DType::q4_1:
      return PackedCut{0, 5, 0};
    case DType::q5_0:
      return PackedCut{2, 5, 0};
    case DType::q5_1:
      return PackedCut{0, 6, 0};
    case DType::q8_0:
      return PackedCut{2, 8, 0};
    case DType::mxfp4:
      return PackedCut{1, 4, 0};
    case DType::q2_k:
      return PackedCut{0, 21, 0};
    case DType::q3_k:
      return PackedCut{0, 27, 2};
    case DType::q4_k:
      return PackedCut{0, 36, 0};
    case DType::q5_k:
      return PackedCut{0, 44, 0};
    case DType::q6_k:
      return PackedCut{0, 52, 2};
    case DType::iq4_xs:
      return PackedCut{0, 34, 0};
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::q1_0:
    case DType::q2_0:
    case DType::q8_1:
    case DType::q8_k:
    case DType::iq1_s:
    case DType::iq1_m:
    case DType::iq2_xxs:
    case DType::iq2_xs:
    case DType::iq2_s:
    case DType::iq3_xxs:
    case DType::iq3_s:
    case DType::tq1_0:
    case DType::tq2_0:
    case DType::nvfp4:
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::i64:
    case DType::f64:
      return std::nullopt;
  }
  return std::nullopt;
}

// One block of one row into its group. The plain spelling of the rule; kernels have faster ones.
inline void pack_block(std::byte* group, size_t row, const std::byte* block, const PackedCut& cut) {
  std::memcpy(group + row * cut.head_bytes, block, cut.head_bytes);
  for (size_t w = 0; w < cut.n_words; w++) {
    std::memcpy(group + cut.words_at() + 4 * (kPackedRows * w + row), block + cut.head_bytes + 4 * w, 4);
  }
  std::memcpy(group + cut.tail_at() + row * cut.tail_bytes, block + cut.head_bytes + 4 * cut.n_words, cut.tail_bytes);
}

// And back.
inline void unpack_block(std::byte* block, const std::byte* group, size_t row, const PackedCut& cut) {
  std::memcpy(block, group + row * cut.head_bytes, cut.head_bytes);
  for (size_t w = 0; w < cut.n_words; w++) {
    std::memcpy(block + cut.head_bytes + 4 * w, group + cut.words_at() + 4 * (kPackedRows * w + row), 4);
  }
  std::memcpy(block + cut.head_bytes + 4 * cut.n_words, group + cut.tail_at() + row * cut.tail_bytes, cut.tail_bytes);
}

}  // namespace rocmforge
