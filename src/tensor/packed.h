#pragma once
// Packed layouts: how matrix rows are interleaved for the CPU kernels. One rule serves every format.
//
// As many rows as a register has lanes, 8 or 16, are interleaved block by block. A packed group holds the same block of
// those rows, divided into parts (head, tail, words); each part is stored for all rows before the next:
//
//   head   0, 1 or 2 bytes    a leading scale that leaves the rest of the block unaligned (Q4_0, Q8_0, MXFP4 ...)
//   tail   0 or 2 bytes       a trailing scale (Q3_K, Q6_K)
//   words  4 bytes each       everything else; one word of all rows fills a register, one row per lane
//
// A block of a float type is 32 elements here.
//
// Words are stored in the order in which a kernel first needs them, which may differ from the file's: scales before
// codes, the upper bits of a code beside its lower ones. Reading memory strictly forwards is up to four times as fast
// (Q6_K, measured).
//
//   Q4_0, 18 bytes per block, 144 per group of eight:
//     bytes 0 .. 15         d of row 0, d of row 1, ... d of row 7
//     bytes 16 .. 47        qs[0..3] of row 0, qs[0..3] of row 1, ... of row 7
//     bytes 48 .. 79        qs[4..7] of row 0, ...
//
// The groups of the same rows follow each other along the row and form a unit (one row group of the packed matrix);
// units follow each other down the matrix. So a packed matrix takes exactly the bytes of the file, a unit begins where
// its first row would begin in the file, and the rows after the last whole unit stay as they are.
//
// Bits keep their position inside a block: tensor/formats defines them.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "tensor/dtype.h"

namespace rocmforge {

// The largest number of rows in a unit: a multiple of it is a multiple of every unit.
inline constexpr size_t kMaxPackedRows = 16;

struct PackedCut {
  struct Run {
    size_t first = 0;  // word of the block
    size_t n = 0;
    size_t beside = 0;  // the first of the words that stand between these; 0: none
    size_t before = 1;  // how many of these come before each of those
  };
  size_t head_bytes = 0;
  size_t n_words = 0;
  size_t tail_bytes = 0;
  Run runs[5] = {};  // the order of the packed words; empty: as in the block

  // The packed position of word w.
  constexpr size_t position(size_t w) const {
    size_t at = 0;
    for (const Run& run : runs) {
      const size_t n_beside = run.beside != 0 ? run.n / run.before : 0;
      if (w >= run.first && w < run.first + run.n) {
        const size_t i = w - run.first;
        return at + i + (n_beside != 0 ? i / run.before : 0);
      }
      if (n_beside != 0 && w >= run.beside && w < run.beside + n_beside) {
        return at + (run.before + 1) * (w - run.beside) + run.before;
      }
      at += run.n + n_beside;
    }
    return w;
  }

  constexpr size_t block_bytes() const { return head_bytes + 4 * n_words + tail_bytes; }
  constexpr size_t group_bytes(size_t n_rows) const { return n_rows * block_bytes(); }
  constexpr size_t tail_at(size_t n_rows) const { return n_rows * head_bytes; }                  // offset in the group
  constexpr size_t words_at(size_t n_rows) const { return n_rows * (head_bytes + tail_bytes); }  // offset in the group
};

// The layout of this type's blocks; nullopt for types without a packed layout.
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
      return PackedCut{0, 21, 0, {{20, 1}, {0, 20}}};  // units, scales, qs
    case DType::q3_k:
      return PackedCut{0, 27, 2, {{24, 3}, {0, 8, 8}, {16, 8}}};  // scales; hmask with qs, qs
    case DType::q4_k:
      return PackedCut{0, 36, 0};
    case DType::q5_k:
      return PackedCut{0, 44, 0, {{0, 4}, {4, 8, 12}, {20, 24}}};  // scales; qh with qs, qs
    case DType::q6_k:
      return PackedCut{0, 52, 2, {{48, 4}, {0, 8, 32}, {8, 8}, {16, 8, 40}, {24, 8}}};  // scales; ql with qh, ql; again
    case DType::iq4_xs:
      return PackedCut{0, 34, 0};
    case DType::iq1_s:
      return PackedCut{2, 12, 0, {{0, 8, 8, 2}}};  // indices with qh
    case DType::iq1_m:
      return PackedCut{0, 14, 0, {{12, 2}, {0, 8, 8, 2}}};  // scales; indices with qh
    case DType::iq2_xxs:
      return PackedCut{2, 16, 0};
    case DType::iq2_xs:
      return PackedCut{2, 18, 0, {{16, 2}, {0, 16}}};  // scales, indices
    case DType::iq2_s:
      return PackedCut{2, 20, 0, {{16, 4}, {0, 8, 8}}};  // qh and scales; indices with signs
    case DType::iq3_xxs:
      return PackedCut{2, 24, 0, {{0, 16, 16, 2}}};  // indices with signs
    case DType::iq3_s:
      return PackedCut{2, 27, 0, {{26, 1}, {16, 2}, {0, 16, 18, 2}}};  // scales, qh; indices with signs
    case DType::tq1_0:
      return PackedCut{0, 13, 2};
    case DType::tq2_0:
      return PackedCut{0, 16, 2};
    case DType::q1_0:
    case DType::q2_0:
      return PackedCut{2, 4, 0};
    case DType::nvfp4:
      return PackedCut{0, 9, 0};
    case DType::f32:
      return PackedCut{0, 32, 0};
    case DType::f16:
    case DType::bf16:
      return PackedCut{0, 16, 0};
    case DType::q8_1:
    case DType::q8_k:
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::i64:
    case DType::f64:
      return std::nullopt;
  }
  return std::nullopt;
}

// Elements of a packed block. REQUIRES: the type has a packed layout
inline size_t packed_elements(DType dtype) {
  const DTypeInfo& info = dtype_info(dtype);
  return info.block_elements == 1 ? 32 : info.block_elements;
}

// Packs one block of one row into its group of n_rows. The reference implementation; kernels have faster ones.
inline void pack_block(std::byte* group, size_t n_rows, size_t row, const std::byte* block, const PackedCut& cut) {
  std::memcpy(group + row * cut.head_bytes, block, cut.head_bytes);
  for (size_t w = 0; w < cut.n_words; w++) {
    const size_t at = n_rows * cut.position(w) + row;
    std::memcpy(group + cut.words_at(n_rows) + 4 * at, block + cut.head_bytes + 4 * w, 4);
  }
  std::memcpy(group + cut.tail_at(n_rows) + row * cut.tail_bytes, block + cut.head_bytes + 4 * cut.n_words,
              cut.tail_bytes);
}

// The inverse of pack_block.
inline void unpack_block(std::byte* block, const std::byte* group, size_t n_rows, size_t row, const PackedCut& cut) {
  std::memcpy(block, group + row * cut.head_bytes, cut.head_bytes);
  for (size_t w = 0; w < cut.n_words; w++) {
    const size_t at = n_rows * cut.position(w) + row;
    std::memcpy(block + cut.head_bytes + 4 * w, group + cut.words_at(n_rows) + 4 * at, 4);
  }
  std::memcpy(block + cut.head_bytes + 4 * cut.n_words, group + cut.tail_at(n_rows) + row * cut.tail_bytes,
              cut.tail_bytes);
}

}  // namespace rocmforge
