// Attention of a tile of rows, page by page of the cache, on Hopper.
//
// A block takes 128 rows of one query head: two warpgroups of 64 rows each. For each page of 64 positions:
//
//   scores = queries x keys        both from shared memory
//   a step of the online softmax   in the registers that hold the scores: four lanes hold a row
//   sums = rescaled sums + weights x values     weights from those registers, values from shared memory
//
// The next page's keys and values are loaded meanwhile (two pipeline stages). Rows of 64 elements are 128 bytes in
// shared memory, with their 16-byte chunks swizzled as the matrix unit requires; longer heads are two panels of such
// rows. The matrix unit itself reads values with positions along k.
//
// Rows of a tile may belong to several sequences; the sequences are processed one after the other, and results for rows
// of others are dropped. Queries that exceed the range of halves are scaled down, row by row (kernels/row_scale.h), and
// their scores scaled up.

#include "gpu/runtime.h"

#include "gpu/fragment/hopper.h"
#include "gpu/kernels/attend_hopper.h"
#include "gpu/kernels/attend_share.h"
#include "gpu/kernels/row_scale.h"

namespace rocmforge::gpu::RF_KERNELS {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

constexpr float kLog2E = 1.44269504f, kLn2 = 0.69314718f;
constexpr uint32_t kPanelRowBytes = 128;

// The swizzled address of 16-byte chunk `piece` of a row, in panels of n_rows rows.
RF_DEVICE uint32_t turned(uint32_t row, uint32_t piece, uint32_t n_rows) {
  return piece / 8 * n_rows * kPanelRowBytes + row * kPanelRowBytes + (piece % 8 ^ row % 8) * 16;
}

// Two halves, the first one lower.
RF_DEVICE uint32_t halves(float first, float second) {
  const __half2 pair = __floats2half2_rn(first, second);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

template <uint32_t kHead>
struct HopperAttention {
  static constexpr uint32_t kPieces = kHead / 8, kPanels = kHead / 64;
  static constexpr uint32_t kPageBytes = kPagePositions * kHead * 2;  // of keys, or of values
  static constexpr uint32_t kStageBytes = 2 * kPageBytes;
  static constexpr uint32_t kQueryBytes = kAttendHopperRows * kHead * 2;
  static constexpr float kNever = -__builtin_huge_valf();

  const AttendArgs& args;
  uint32_t queries, stages;  // in shared memory
  uint32_t head, first_row, begin, end;
  uint32_t width, offset;

  // Loads the queries times scale * log2(e): the softmax uses powers of two. Rows of other sequences are zeros.
  RF_DEVICE void load_queries() const {
    for (uint32_t i = thread_index(); i < kAttendHopperRows * kPieces; i += kAttendHopperThreads) {
      const uint32_t in_tile = i / kPieces, row = first_row + in_tile, d = i % kPieces * 8;
      float v[8] = {};
      uint32_t largest = 0;
      if (row >= begin && row < end && d < args.head_size) {
        const float* q = args.q + (uint64_t{row} * args.n_heads + head) * args.head_size + d;
        RF_UNROLL
        for (uint32_t e = 0; e < 8; e++) {
          v[e] = q[e] * (args.scale * kLog2E);
          largest = larger(largest, magnitude(v[e]));
        }
      }
      float undo = 1.0f;
      if (ballot(overflows_half(largest)) != 0) {  // kPieces lanes have a row
        for (uint32_t mask = 1; mask < kPieces; mask *= 2) largest = larger(largest, shuffle_xor(largest, mask));
        const float scale = scale_for_halves(largest);
        RF_UNROLL
        for (uint32_t e = 0; e < 8; e++) v[e] *= scale;
        undo = undo_scale(scale);
      }
      const Word4 piece{{halves(v[0], v[1]), halves(v[2], v[3]), halves(v[4], v[5]), halves(v[6], v[7])}};
      store_shared(queries + turned(in_tile, i % kPieces, kAttendHopperRows), piece);
      if (i % kPieces == 0) store_shared(undo_of(in_tile), undo);
    }
  }
  // The address of the factor for the scores of a row of the tile.
  RF_DEVICE uint32_t undo_of(uint32_t in_tile) const { return stages + 2 * kStageBytes + 4 * in_tile; }

  // Starts copying a page's keys and values. Positions that were never stored become zeros.
  RF_DEVICE void fetch(uint32_t stage, uint32_t page_at, uint32_t n_there) const {
    const auto* keys =
        static_cast<const uint16_t*>(args.cache) + uint64_t{page_at} * 2 * kPagePositions * width + offset;
    const uint32_t to = stages + stage * kStageBytes;
    RF_UNROLL
    for (uint32_t n = 0; n < kPagePositions * kPieces / kAttendHopperThreads; n++) {
      const uint32_t i = n * kAttendHopperThreads + thread_index();
      const uint32_t p = i / kPieces, d = i % kPieces * 8;
      const bool there = p < n_there && d < args.head_size;
      const uint16_t* from = keys + (there ? p * width + d : 0);
      const uint32_t at = turned(p, i % kPieces, kPagePositions);
      copy16_or_zeros(to + at, from, there);
      copy16_or_zeros(to + kPageBytes + at, from + (there ? uint64_t{kPagePositions} * width : 0), there);
    }
    commit_copies();
  }

  RF_DEVICE void run() const {
    const uint32_t group = thread_index() / 128;  // which warpgroup
    const uint32_t g = lane() / 4, t = lane() % 4;
    const uint32_t group_first = first_row + group * 64, my_first = group_first + wave() % 4 * 16 + g;
    const auto position_of = [&](uint32_t row) {
      return args.batch.positions[row < begin ? begin : row < end ? row : end - 1];
    };
    const uint32_t mine[2] = {position_of(my_first), position_of(my_first + 8)};
    const uint32_t warp_first = position_of(my_first - g), warp_last = position_of(my_first - g + 15);
    const bool group_has_rows = group_first < end && group_first + 64 > begin;
    const uint32_t group_last_page = position_of(group_first + 63) / kPagePositions;
    const uint32_t group_from = position_of(group_first);
    const auto first_seen = [&](uint32_t position) {
      return args.window != 0 && position >= args.window ? position - args.window + 1 : 0;
    };
    const uint32_t group_first_page = first_seen(group_from) / kPagePositions;

    const uint32_t last = args.batch.positions[end - 1], last_page = last / kPagePositions;
    const uint32_t first_page = first_seen(args.batch.positions[begin]) / kPagePositions;
    const uint32_t* pages = args.batch.pages + args.batch.first_page[begin];

    sync_block();  // shared memory is free: the previous sequence is done
    uint32_t next_at = pages[first_page < last_page ? first_page + 1 : last_page];
    fetch(0, pages[first_page], last + 1 - first_page * kPagePositions);
    load_queries();

    float sums[kHead / 2];
    RF_UNROLL
    for (uint32_t i = 0; i < kHead / 2; i++) sums[i] = 0;
    float largest[2] = {kNever, kNever}, total[2] = {0, 0};

    for (uint32_t page = first_page, stage = 0; page <= last_page; page++, stage ^= 1) {
      wait_for_copies();
      publish_shared();
      sync_block();  // the page has arrived, and the other stage has been read
      if (page < last_page) {
        fetch(stage ^ 1, next_at, last + 1 - (page + 1) * kPagePositions);
        next_at = pages[page + 2 <= last_page ? page + 2 : last_page];
      }
      if (!group_has_rows || page > group_last_page || page < group_first_page) continue;

      float scores[32];
      const uint32_t keys = stages + stage * kStageBytes, values = keys + kPageBytes;
      wgmma::fence();
      RF_UNROLL
      for (uint32_t k = 0; k < kHead / 16; k++) {
        Wgmma<64>::multiply_shared(
            scores, wgmma::panel(queries + k / 4 * (kAttendHopperRows * kPanelRowBytes) + group * 8192 + k % 4 * 32),
            wgmma::panel(keys + k / 4 * (kPagePositions * kPanelRowBytes) + k % 4 * 32), k != 0);
      }
      wgmma::commit();
      wgmma::wait<0>();

      const uint32_t first_position = page * kPagePositions;
      if (first_position + kPagePositions - 1 > warp_first || first_position < first_seen(warp_last)) {
        RF_UNROLL
        for (uint32_t i = 0; i < 32; i++) {
          const uint32_t position = first_position + i / 4 * 8 + 2 * t + i % 2, row_at = mine[i % 4 / 2];
          if (position > row_at || position < first_seen(row_at)) scores[i] = kNever;
        }
      }
      float keep[2];
      RF_UNROLL
      for (uint32_t r = 0; r < 2; r++) {
        float top = largest[r];
        RF_UNROLL
        for (uint32_t i = 0; i < 16; i++) top = fmaxf(top, scores[i / 2 * 4 + 2 * r + i % 2]);
        top = fmaxf(top, shuffle_xor(top, 1));
        top = fmaxf(top, shuffle_xor(top, 2));
        const float undo = load_shared(undo_of(wave() * 16 + g + 8 * r));
        const float minus_base = top == kNever ? 0.0f : -top * undo;  // a row that has no scores yet
        keep[r] = power_of_two(fma_f32(largest[r], undo, minus_base));
        largest[r] = top;
        float sum = 0;
        RF_UNROLL
        for (uint32_t i = 0; i < 16; i++) {
          float& score = scores[i / 2 * 4 + 2 * r + i % 2];
          score = power_of_two(fma_f32(score, undo, minus_base));
          sum += score;
        }
        total[r] = total[r] * keep[r] + sum;  // of this lane's columns
      }
      uint32_t weights[16];
      RF_UNROLL
      for (uint32_t i = 0; i < 16; i++) weights[i] = halves(scores[2 * i], scores[2 * i + 1]);
      RF_UNROLL
      for (uint32_t i = 0; i < kHead / 2; i++) sums[i] *= keep[i % 4 / 2];

      wgmma::fence();
      RF_UNROLL
      for (uint32_t k = 0; k < kPagePositions / 16; k++) {
        Wgmma<kHead>::template multiply<1>(
            sums, weights + 4 * k,
            wgmma::turned_panel(values + k * 16 * kPanelRowBytes, kPagePositions * kPanelRowBytes));
      }
      wgmma::commit();
      wgmma::wait<0>();
    }

    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
      float all = total[r];
      all += shuffle_xor(all, 1);
      all += shuffle_xor(all, 2);
      const float undo = load_shared(undo_of(wave() * 16 + g + 8 * r));
      const float share = share_of_total(args, head, largest[r] * undo * kLn2, all);
      const uint32_t row = my_first + 8 * r;
      if (row < begin || row >= end) continue;
      float* out = args.out + (uint64_t{row} * args.n_heads + head) * args.head_size;
      RF_UNROLL
      for (uint32_t j = 0; j < kHead / 8; j++) {
        if (8 * j >= args.head_size) continue;
        *reinterpret_cast<float2*>(out + 8 * j + 2 * t) =
            float2{sums[4 * j + 2 * r] * share, sums[4 * j + 2 * r + 1] * share};
      }
    }
  }
};

template <uint32_t kHead>
RF_DEVICE void attend_hopper(const AttendTilesArgs& args) {
  using H = HopperAttention<kHead>;
  wait_for_inputs();
  let_next_begin();
  extern __shared__ uint8_t memory[];
  const uint32_t at = (shared_address(memory) + 1023) / 1024 * 1024;
  const AttendArgs& attend = args.attend;
  const BatchView& batch = attend.batch;
  const uint32_t first = (gridDim.y - 1 - block_y()) * kAttendHopperRows;
  const uint32_t end = first + kAttendHopperRows < args.n_rows ? first + kAttendHopperRows : args.n_rows;
  const uint32_t head = block_x(), kv_head = head / (attend.n_heads / attend.n_kv_heads);
  for (uint32_t row = first; row < end;) {
    const uint32_t n = batch.n_together[row], past = batch.first_row[row] + n;
    const uint32_t until = past < end ? past : end;
    if (n >= kMinTiledRows) {
      H{attend,
        at,
        at + H::kQueryBytes,
        head,
        first,
        row,
        until,
        attend.n_kv_heads * attend.head_size,
        kv_head * attend.head_size}
          .run();
    }
    row = until;
  }
}

#else

template <uint32_t kHead>
RF_DEVICE void attend_hopper(const AttendTilesArgs&) {}

#endif

RF_HOPPER_KERNEL_EARLY(attend_hopper_64, AttendTilesArgs, kAttendHopperThreads) {
  attend_hopper<64>(args);
}
RF_HOPPER_KERNEL_EARLY(attend_hopper_128, AttendTilesArgs, kAttendHopperThreads) {
  attend_hopper<128>(args);
}

}  // namespace rocmforge::gpu::RF_KERNELS
