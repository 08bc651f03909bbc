#pragma once
// What kernels that attend row by row share: the chunks of a row, and putting together what was found of them: by the
// waves of a block, then by the blocks of a row.

#include "gpu/kernels/attend.h"
#include "gpu/kernels/attend_share.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

// The most negative finite value: its exponential beside any other is zero, and differences stay numbers.
constexpr float kLowest = -3.402823466e38f;

constexpr uint32_t kAttendWaves = kAttendThreads / kWave;

struct Span {
  uint32_t first, end;  // positions
};

// What a row attends to, and where it is cut.
struct RowChunks {
  uint32_t first, end;  // positions
  uint32_t begin;       // of the first chunk: at or a little before `first`
  uint32_t chunk;       // positions of a chunk
  uint32_t n;           // chunks

  RF_DEVICE RowChunks(const AttendArgs& args, uint32_t row) {
    end = args.batch.positions[row] + 1;
    first = args.window != 0 && args.window < end ? end - args.window : 0;
    begin = first / kChunkStep * kChunkStep;
    const uint32_t all = end - begin;
    constexpr uint32_t kUnit = kMaxChunks * kChunkStep;
    chunk = (all + kUnit - 1) / kUnit * kChunkStep;
    chunk = chunk > kMinChunkPositions ? chunk : kMinChunkPositions;
    n = (all + chunk - 1) / chunk;
  }

  // None: a chunk beyond the last.
  RF_DEVICE Span span(uint32_t c) const {
    const uint32_t at = begin + c * chunk;
    return {at, c >= n ? at : c + 1 < n ? at + chunk : end};
  }
};

// The heads of a block.
struct BlockHeads {
  uint32_t kv_head;
  uint32_t first, n;  // query heads
  uint32_t n_blocks;  // beside each other, for all heads

  RF_DEVICE BlockHeads(const AttendArgs& args, uint32_t most) {
    const uint32_t group = args.n_heads / args.n_kv_heads, n_tiles = (group + most - 1) / most;
    n_blocks = args.n_kv_heads * n_tiles;
    kv_head = block_y() / n_tiles;
    const uint32_t before = block_y() % n_tiles * most;
    first = kv_head * group + before;
    n = group - before < most ? group - before : most;
  }
};

// Memory of a block. Waves leave what they found of a chunk in the first three.
template <uint32_t kHeads, uint32_t kHeadSize>
struct AttendShared {
  alignas(16) float sums[kAttendWaves][kHeads][kHeadSize + 4];
  float largest[kAttendWaves][kHeads], total[kAttendWaves][kHeads];
  uint32_t n_before;
};

struct alignas(16) Float4 {
  float v[4];
};
struct alignas(8) Float2 {
  float v[2];
};
RF_DEVICE const Float4& float4_at(const float* at) {
  return *reinterpret_cast<const Float4*>(at);
}

RF_DEVICE void put_out(const AttendArgs& args, uint32_t row, uint32_t head, uint32_t d, const Float4& sum,
                       float share) {
  float* out = args.out + (static_cast<uint64_t>(row) * args.n_heads + head) * args.head_size + d;
  if (args.head_size % 4 == 0) {
    *reinterpret_cast<Float4*>(out) = {sum.v[0] * share, sum.v[1] * share, sum.v[2] * share, sum.v[3] * share};
    return;
  }
  RF_UNROLL
  for (uint32_t i = 0; i < 4; i++) {
    if (d + i < args.head_size) out[i] = sum.v[i] * share;
  }
}

// Joins a chunk's waves: into the result when the row has no other chunk, else into its part.
template <uint32_t kHeads, uint32_t kHeadSize>
RF_DEVICE void end_chunk(const AttendShared<kHeads, kHeadSize>& shared, const AttendArgs& args, const BlockHeads& heads,
                         const RowChunks& chunks, uint32_t chunk) {
  const uint32_t n_words = (args.head_size + 3) / 4, row = block_x();
  for (uint32_t i = thread_index(); i < heads.n * n_words; i += kAttendThreads) {
    const uint32_t h = i / n_words, d = i % n_words * 4;
    float largest = shared.largest[0][h];
    for (uint32_t w = 1; w < kAttendWaves; w++) {
      largest = shared.largest[w][h] > largest ? shared.largest[w][h] : largest;
    }
    Float4 sum{};
    float total = 0;
    RF_UNROLL
    for (uint32_t w = 0; w < kAttendWaves; w++) {
      const float share = exp_f32(shared.largest[w][h] - largest);
      total += share * shared.total[w][h];
      const Float4& of_wave = float4_at(&shared.sums[w][h][d]);
      RF_UNROLL
      for (uint32_t e = 0; e < 4; e++) sum.v[e] += share * of_wave.v[e];
    }
    if (chunks.n == 1) {
      put_out(args, row, heads.first + h, d, sum, share_of_total(args, heads.first + h, largest, total));
      continue;
    }
    const uint64_t part = (static_cast<uint64_t>(row) * args.n_heads + heads.first + h) * kMaxChunks + chunk;
    *reinterpret_cast<Float4*>(args.parts + (part * n_words + i % n_words) * 4) = sum;
    if (d == 0) *reinterpret_cast<Float2*>(args.tops + part * 2) = {largest, total};
  }
}

// By every block of a row after its chunks: the one that comes last joins them.
template <uint32_t kHeads, uint32_t kHeadSize>
RF_DEVICE void join_chunks(AttendShared<kHeads, kHeadSize>& shared, const AttendArgs& args, const BlockHeads& heads,
                           const RowChunks& chunks) {
  if (chunks.n == 1) return;
  const uint32_t row = block_x(), n_blocks = args.n_blocks < chunks.n ? args.n_blocks : chunks.n;
  if (n_blocks > 1) {
    uint32_t* arrivals = args.arrivals + static_cast<uint64_t>(row) * heads.n_blocks + block_y();
    if (arrive(arrivals, &shared.n_before) + 1 != n_blocks) return;
    if (thread_index() == 0) *arrivals = 0;
  } else {
    sync_block();
  }
  const uint64_t first_part = (static_cast<uint64_t>(row) * args.n_heads + heads.first) * kMaxChunks;
  const uint32_t n_words = (args.head_size + 3) / 4;
  for (uint32_t i = thread_index(); i < heads.n * n_words; i += kAttendThreads) {
    const uint32_t h = i / n_words, d = i % n_words * 4;
    const float* part = args.parts + (first_part + h * kMaxChunks) * n_words * 4 + d;
    const float* top = args.tops + (first_part + h * kMaxChunks) * 2;
    Float4 sum{};
    float largest = kLowest, total = 0;
    constexpr uint32_t kAhead = 16;
    for (uint32_t first = 0; first < chunks.n; first += kAhead) {
      Float4 of_chunk[kAhead];
      Float2 tops[kAhead];
      RF_UNROLL
      for (uint32_t c = 0; c < kAhead; c++) {
        of_chunk[c] = {};
        tops[c] = {kLowest, 0.0f};
        if (first + c >= chunks.n) continue;
        of_chunk[c] = float4_at(part + (first + c) * n_words * 4);
        tops[c] = *reinterpret_cast<const Float2*>(top + (first + c) * 2);
      }
      float next = largest;
      RF_UNROLL
      for (uint32_t c = 0; c < kAhead; c++) next = tops[c].v[0] > next ? tops[c].v[0] : next;
      const float keep = exp_f32(largest - next);
      largest = next;
      total *= keep;
      RF_UNROLL
      for (uint32_t e = 0; e < 4; e++) sum.v[e] *= keep;
      RF_UNROLL
      for (uint32_t c = 0; c < kAhead; c++) {
        const float share = exp_f32(tops[c].v[0] - largest);
        total += share * tops[c].v[1];
        RF_UNROLL
        for (uint32_t e = 0; e < 4; e++) sum.v[e] += share * of_chunk[c].v[e];
      }
    }
    put_out(args, row, heads.first + h, d, sum, share_of_total(args, heads.first + h, largest, total));
  }
}

// A block of a kernel. Attention: what one row's lanes know, with
//   look_ahead(span)      reads what earlier passes have stored, `settled` positions
//   begin(span)           reads what else it needs to begin
//   load_queries()        which kernels before this one have written
//   attend(span, next)    over the positions of a chunk; `next` is the block's next, or empty
//   leave(shared)         the waves' sums, maxima and totals
template <class Attention>
RF_DEVICE void attend_row(const AttendArgs& args) {
  // Two where there is room, so that waves need not wait until a chunk has been read to leave the next.
  using Shared = typename Attention::Shared;
  constexpr uint32_t kTurns = sizeof(Shared) <= 20 * 1024 ? 2 : 1;
  RF_SHARED(Shared[kTurns], turns);
  let_next_begin();
  const uint32_t row = block_x();
  Attention attention(args, row);
  const RowChunks& chunks = attention.chunks;
  // The batch's own numbers came with a copy ahead of all kernels of the pass.
  const uint32_t n_together = args.batch.n_together[row];
  const bool is_mine = (args.min_tiled_rows == 0 || n_together < args.min_tiled_rows) && block_z() < chunks.n;
  if (is_mine) attention.look_ahead(chunks.span(block_z()), n_together < chunks.end ? chunks.end - n_together : 0);
  wait_for_inputs();
  if (!is_mine) return;
  attention.begin(chunks.span(block_z()));
  attention.load_queries();
  uint32_t turn = 0;
  for (uint32_t c = block_z(); c < chunks.n; c += args.n_blocks) {
    attention.attend(chunks.span(c), chunks.span(c + args.n_blocks));
    Shared& shared = turns[turn];
    turn = (turn + 1) % kTurns;
    if (kTurns == 1 && c != block_z()) sync_block();  // the chunk before has been read
    attention.leave(shared);
    sync_block();
    end_chunk(shared, args, attention.heads, chunks, c);
  }
  join_chunks(turns[0], args, attention.heads, chunks);
}

}  // namespace rocmforge::gpu::RF_KERNELS
