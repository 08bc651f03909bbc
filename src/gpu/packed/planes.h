#pragma once
// The layout of a weight in device memory: the fields of its blocks in separate planes (structure of arrays). All
// blocks' quants come first, then all their scales and so on, so that each lane of a wave reads 16 neighbouring bytes.
// The order of blocks and bits does not change.
//
//   file     | d qs | d qs | d qs |              one block after the other
//   device   | qs qs qs |pad| d d d |            a plane per field, each at a multiple of 256 bytes
//
// Formats not listed here keep the file's layout: one plane of whole blocks.

#include <cstddef>
#include <cstdint>

#include "base/check.h"
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

inline PlaneTable plane_table(DType dtype) {
  switch (dtype) {
    case DType::q4_0:
    case DType::iq4_nl:
      return {18, 2, {{2, 16}, {0, 2}}};  // qs, d
    case DType::q4_1:
      return {20, 2, {{4, 16}, {0, 4}}};  // qs, d and m
    case DType::q5_0:
      return {22, 3, {{6, 16}, {2, 4}, {0, 2}}};  // qs, qh, d
    case DType::q5_1:
      return {24, 3, {{8, 16}, {4, 4}, {0, 4}}};  // qs, qh, d and m
    case DType::q8_0:
      return {34, 2, {{2, 32}, {0, 2}}};  // qs, d
    case DType::mxfp4:
      return {17, 2, {{1, 16}, {0, 1}}};  // qs, e
    case DType::q2_k:
      return {84, 3, {{16, 64}, {0, 16}, {80, 4}}};  // qs, scales, d and dmin
    case DType::q3_k:
      return {110, 4, {{32, 64}, {0, 32}, {96, 12}, {108, 2}}};  // qs, hmask, scales, d
    case DType::q4_k:
      return {144, 2, {{16, 128}, {0, 16}}};  // qs; d, dmin and scales
    case DType::q5_k:
      return {176, 3, {{48, 128}, {16, 32}, {0, 16}}};  // qs, qh; d, dmin and scales
    case DType::q6_k:
      return {210, 4, {{0, 128}, {128, 64}, {192, 16}, {208, 2}}};  // ql, qh, scales, d
    case DType::iq4_xs:
      return {136, 2, {{8, 128}, {0, 8}}};  // qs; d and scales
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::q1_0:
    case DType::q2_0:
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
    case DType::q8_1:
    case DType::q8_k:
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::i64:
    case DType::f64: {
      const uint32_t n_bytes = dtype_info(dtype).block_bytes;
      return {n_bytes, 1, {{0, n_bytes}}};
    }
  }
  RF_UNREACHABLE("a DType outside its enum");
}

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
