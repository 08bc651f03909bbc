#pragma once
// Copies of strips' pieces (packed/strips.h) into shared memory, and the matrix instruction that uses them. For Hopper
// alone.

#include <utility>

#include "gpu/fragment/hopper.h"
#include "gpu/kernels/stream_hopper.h"
#include "gpu/packed/strips.h"

namespace rocmforge::gpu::RF_KERNELS {

namespace ring {
template <uint32_t kBytes>
RF_DEVICE void copy(uint32_t to, const uint8_t* from) {
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(kBytes) : "memory");
  }
}
}  // namespace ring

// d = c + a * b; a is four registers of sixteen rows (top and bottom eight), b two registers of eight columns.
RF_DEVICE void multiply_halves(float (&d)[4], const uint32_t (&top)[2], const uint32_t (&bottom)[2], uint32_t b0,
                               uint32_t b1, const float (&c)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(top[0]), "r"(bottom[0]), "r"(top[1]), "r"(bottom[1]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]),
        "f"(c[3]));
}

// A staged piece: sixteen rows, and the words of fields that are stored apart.
template <class S>
struct StagedPiece {
  static constexpr uint32_t kPlanes = sizeof(S::kPlanes) / sizeof(StripPlane);
  static constexpr bool kHasApart = S::kPlanes[kPlanes - 1].n_bytes == 2;
  static constexpr uint32_t kRowsBytes = kStreamOutputs * S::kStride;
  static constexpr uint32_t kBytes = kRowsBytes + (kHasApart ? 4 * kStreamOutputs : 0);

  // Lane (g, t)'s view of output g + 8 * upper.
  RF_DEVICE static typename S::Row row(const uint8_t* staged, uint32_t upper, uint32_t n_pieces, uint32_t piece) {
    const uint32_t g = lane() / 4, t = lane() % 4;
    float d = 0;
    if constexpr (kHasApart) {
      const uint32_t odd = ((g & n_pieces) ^ piece) & 1;  // the blocks of a strip begin at an even index
      d = half_in(staged + kRowsBytes + 4 * (g + 8 * upper) + 2 * odd);
    }
    return {staged + (g + 8 * upper) * S::kStride, t, d};
  }

  // A warp starts copying a piece; the copies belong to its next commit.
  RF_DEVICE static void fetch(uint32_t to, const Planes& w, uint32_t strip, uint32_t n_pieces, uint32_t piece) {
    const uint32_t first_block = strip * kStreamOutputs * n_pieces + piece;
    [&]<uint32_t... p>(std::integer_sequence<uint32_t, p...>) {
      (fetch_plane<S::kPlanes[p].n_bytes>(to, S::kPlanes[p].offset, w.at[p], first_block, n_pieces), ...);
    }(std::make_integer_sequence<uint32_t, kPlanes>());
  }

  // Where a lane's copies of pieces begin, for kernels that loop over pieces: eight outputs of one weight, then eight
  // of another or of the same one.
  struct Source {
    const uint8_t* at[kPlanes][2];
    uint32_t block;  // index in the plane that is stored apart
  };
  RF_DEVICE static Source source(const Planes& first, uint32_t first_out, const Planes& second, uint32_t second_out,
                                 uint32_t n_pieces) {
    Source from;
    const uint32_t first_block = first_out * n_pieces, second_block = second_out * n_pieces;
    [&]<uint32_t... p>(std::integer_sequence<uint32_t, p...>) {
      (begin<S::kPlanes[p].n_bytes>(from.at[p], first.at[p], first_block, second.at[p], second_block, n_pieces), ...);
    }(std::make_integer_sequence<uint32_t, kPlanes>());
    from.block = (lane() % 16 < 8 ? first_block : second_block) + lane() % 8 * n_pieces;
    return from;
  }
  RF_DEVICE static void fetch(uint32_t to, const Source& from, uint32_t n_pieces, uint32_t piece) {
    [&]<uint32_t... p>(std::integer_sequence<uint32_t, p...>) {
      (fetch_further<S::kPlanes[p].n_bytes>(to, S::kPlanes[p].offset, from.at[p], from.block, n_pieces, piece), ...);
    }(std::make_integer_sequence<uint32_t, kPlanes>());
  }

 private:
  RF_DEVICE static constexpr uint32_t chunk_of(uint32_t n_bytes) {
    return n_bytes % 16 == 0 ? 16 : n_bytes % 8 == 0 ? 8 : n_bytes % 4 == 0 ? 4 : 2;
  }
  // A lane copies kChunk bytes of every kRowsAtOnce-th row.
  template <uint32_t kPlaneBytes>
  struct Copies {
    static constexpr uint32_t kChunk = chunk_of(kPlaneBytes), kChunks = kPlaneBytes / kChunk;
    static constexpr uint32_t kRowsAtOnce = 32 / kChunks;
    static_assert(32 % kChunks == 0);
  };
  template <uint32_t kPlaneBytes>
  RF_DEVICE static void begin(const uint8_t* (&at)[2], const uint8_t* first, uint32_t first_block,
                              const uint8_t* second, uint32_t second_block, uint32_t n_pieces) {
    if constexpr (kPlaneBytes == 2) {
      at[0] = at[1] = lane() % 16 < 8 ? first : second;
    } else {
      using C = Copies<kPlaneBytes>;
      const uint32_t row = lane() / C::kChunks % 8, within = lane() % C::kChunks * C::kChunk;
      at[0] = first + uint64_t{first_block + row * n_pieces} * kPlaneBytes + within;
      at[1] = second + uint64_t{second_block + row * n_pieces} * kPlaneBytes + within;
      if (C::kRowsAtOnce > 8 && lane() / C::kChunks % 16 >= 8) at[0] = at[1];
    }
  }
  template <uint32_t kPlaneBytes>
  RF_DEVICE static void fetch_further(uint32_t to, uint32_t offset, const uint8_t* const (&at)[2], uint32_t block,
                                      uint32_t n_pieces, uint32_t piece) {
    if constexpr (kPlaneBytes == 2) {
      if (lane() < kStreamOutputs) ring::copy<4>(to + kRowsBytes + 4 * lane(), at[0] + (block + piece) / 2 * 4);
    } else {
      using C = Copies<kPlaneBytes>;
      const uint32_t row = lane() / C::kChunks;
      to += row * S::kStride + offset + lane() % C::kChunks * C::kChunk;
      RF_UNROLL
      for (uint32_t first = 0; first < kStreamOutputs; first += C::kRowsAtOnce) {
        const uint8_t* from = at[first / 8] + piece * kPlaneBytes + first % 8 * n_pieces * kPlaneBytes;
        if (C::kRowsAtOnce <= kStreamOutputs || row < kStreamOutputs) {
          ring::copy<C::kChunk>(to + first * S::kStride, from);
        }
      }
    }
  }

  template <uint32_t kPlaneBytes>
  RF_DEVICE static void fetch_plane(uint32_t to, uint32_t offset, const uint8_t* plane, uint32_t first_block,
                                    uint32_t n_pieces) {
    if constexpr (kPlaneBytes == 2) {
      if (lane() < kStreamOutputs) {
        const uint64_t block = first_block + lane() * n_pieces;
        ring::copy<4>(to + kRowsBytes + 4 * lane(), plane + block / 2 * 4);
      }
    } else {
      constexpr uint32_t kChunk = chunk_of(kPlaneBytes);
      constexpr uint32_t kChunks = kPlaneBytes / kChunk;  // per row
      constexpr uint32_t kRowsAtOnce = 32 / kChunks;
      if constexpr (32 % kChunks == 0) {
        const uint32_t row = lane() / kChunks, at = lane() % kChunks * kChunk;
        const uint8_t* from = plane + uint64_t{first_block + row * n_pieces} * kPlaneBytes + at;
        const uint32_t step = kRowsAtOnce * n_pieces * kPlaneBytes;
        to += row * S::kStride + offset + at;
        RF_UNROLL
        for (uint32_t first = 0; first < kStreamOutputs; first += kRowsAtOnce) {
          if (kRowsAtOnce <= kStreamOutputs || row < kStreamOutputs) ring::copy<kChunk>(to, from);
          from += step;
          to += kRowsAtOnce * S::kStride;
        }
      } else {
        for (uint32_t i = lane(); i < kStreamOutputs * kChunks; i += 32) {
          const uint32_t row = i / kChunks, at = i % kChunks * kChunk;
          ring::copy<kChunk>(to + row * S::kStride + offset + at,
                             plane + uint64_t{first_block + row * n_pieces} * kPlaneBytes + at);
        }
      }
    }
  }
};

}  // namespace rocmforge::gpu::RF_KERNELS
