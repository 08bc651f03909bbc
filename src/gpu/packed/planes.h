#pragma once
// The layout of a weight in device memory: the fields of its blocks in separate planes (structure of arrays). All
// blocks' quants come first, then all their scales and so on, so that each lane of a wave reads 16 neighbouring bytes.
// The order of blocks and bits does not change.
//
//   file     | d qs | d qs | d qs |              one block after the other
//   device   | qs qs qs |pad| d d d |            a plane per field, each at a multiple of 256 bytes
//
// Floats keep the file's layout: one plane.

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace rocmforge::gpu {

inline constexpr uint32_t kMaxPlanes = 4;
inline constexpr uint64_t kPlaneAlignment = 256;

struct PlaneField {
  uint32_t offset;  // in the file's block
  uint32_t n_bytes;
};

// A format's fields in the order of their planes.
struct PlaneTable {
  uint32_t block_bytes = 0;
  uint32_t n_planes = 0;
  PlaneField fields[kMaxPlanes] = {};
};

PlaneTable plane_table(DType dtype);

// The offsets of the planes of n_blocks blocks, and their total size.
struct PlaneOffsets {
  uint64_t at[kMaxPlanes] = {};
  uint64_t total_bytes = 0;
};

inline PlaneOffsets plane_offsets(const PlaneTable& table, uint64_t n_blocks) {
  PlaneOffsets out;
  uint64_t end = 0;
  for (uint32_t p = 0; p < table.n_planes; p++) {
    out.at[p] = (end + kPlaneAlignment - 1) / kPlaneAlignment * kPlaneAlignment;
    end = out.at[p] + n_blocks * table.fields[p].n_bytes;
  }
  out.total_bytes = end;
  return out;
}

// A weight as kernels get it.
struct Planes {
  const uint8_t* at[kMaxPlanes];
};

}  // namespace rocmforge::gpu
