#pragma once
// Shared by kernels that attend row by row: the chunks of a row, and the reduction of their partial results, first over
// the waves of a block, then over the blocks of a row.

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

// The positions that a row attends to, and their division into chunks.
struct RowChunks {
  uint32_t first, end;  // positions
  uint32_t begin;       // of the first chunk: at or a little before `first`
  uint32_t chunk;       // positions of a chunk
  uint32_t n;           // chunks

  RF_DEVICE RowChunks(const AttendArgs& args, uint32_t row)
      : RowChunks(args.batch.positions[row], args.window, args.chunk) {}
  RF_DEVICE RowChunks(uint32_t position, uint32_t window, uint32_t seen_chunk = 0) {
    end = position + 1;
    first = first_seen(position, window, seen_chunk);
    begin = first / kChunkStep * kChunkStep;
    const uint32_t all = end - begin;
    constexpr uint32_t kUnit = kMaxChunks * kChunkStep;
    chunk = (all + kUnit - 1) / kUnit * kChunkStep;
    chunk = chunk > kMinChunkPositions ? chunk : kMinChunkPositions;
    n = (all + chunk - 1) / chunk;
  }

  // An empty span for a chunk beyond the last.
  RF_DEVICE Span span(uint32_t c) const {
    const uint32_t at = begin + c * chunk;
    return {at, c >= n ? at : c + 1 < n ? at + chunk : end};
  }
};

// The query heads of a block; the block is number `index` of those along y.
struct BlockHeads {
  uint32_t kv_head;
  uint32_t first, n;         // query heads
  uint32_t index, n_blocks;  // blocks along y, for all heads

  BlockHeads() = default;
  RF_DEVICE BlockHeads(const AttendArgs& args, uint32_t most, uint32_t number) : index(number) {
    const uint32_t group = args.n_heads / args.n_kv_heads, n_tiles = (group + most - 1) / most;
    n_blocks = args.n_kv_heads * n_tiles;
    kv_head = index / n_tiles;
    const uint32_t before = index % n_tiles * most;
    first = kv_head * group + before;
    n = group - before < most ? group - before : most;
  }
};

// A block's shared memory. Waves write their results for a chunk into the first three fields.
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

// The partial result of some positions, for four elements of a head.
struct Found {
  Float4 sum{};
  float largest = kLowest, total = 0;

  // Adds the result of later positions. A row's chunks are always added in their order, so the bits do not depend on
  // the block that adds them.
  RF_DEVICE void add(const Found& more) {
    const bool is_more = more.largest > largest;
    const float less = exp_f32(is_more ? largest - more.largest : more.largest - largest);
    const float keep = is_more ? less : 1.0f, share = is_more ? 1.0f : less;
    largest = is_more ? more.largest : largest;
    total = fma_f32(share, more.total, total * keep);
    RF_UNROLL
    for (uint32_t e = 0; e < 4; e++) sum.v[e] = fma_f32(share, more.sum.v[e], sum.v[e] * keep);
  }
};

// Four elements, from index d on, of one of a block's heads.
struct HeadWord {
  uint32_t head, d;
  RF_DEVICE HeadWord(const AttendArgs& args, uint32_t index) {
    const uint32_t n_words = (args.value_size + 3) / 4;
    head = index / n_words;
    d = index % n_words * 4;
  }
};

RF_DEVICE void put_out(const AttendArgs& args, uint32_t row, uint32_t head, uint32_t d, const Found& all) {
  float* out = args.out + (static_cast<uint64_t>(row) * args.n_heads + head) * args.value_size + d;
  const float share = share_of_total(args, head, all.largest, all.total);
  const Float4& sum = all.sum;
  if (args.value_size % 4 == 0) {
    *reinterpret_cast<Float4*>(out) = {sum.v[0] * share, sum.v[1] * share, sum.v[2] * share, sum.v[3] * share};
    return;
  }
  RF_UNROLL
  for (uint32_t i = 0; i < 4; i++) {
    if (d + i < args.value_size) out[i] = sum.v[i] * share;
  }
}

// The result of a block's waves for a chunk.
template <uint32_t kHeads, uint32_t kHeadSize>
RF_DEVICE Found of_waves(const AttendShared<kHeads, kHeadSize>& shared, const HeadWord& word) {
  const uint32_t h = word.head;
  Found found;
  found.largest = shared.largest[0][h];
  for (uint32_t w = 1; w < kAttendWaves; w++) {
    found.largest = shared.largest[w][h] > found.largest ? shared.largest[w][h] : found.largest;
  }
  RF_UNROLL
  for (uint32_t w = 0; w < kAttendWaves; w++) {
    const float share = exp_f32(shared.largest[w][h] - found.largest);
    found.total = fma_f32(share, shared.total[w][h], found.total);
    const Float4& of_wave = float4_at(&shared.sums[w][h][word.d]);
    RF_UNROLL
    for (uint32_t e = 0; e < 4; e++) found.sum.v[e] = fma_f32(share, of_wave.v[e], found.sum.v[e]);
  }
  return found;
}

// Addresses of a head's partial results.
struct Parts {
  float *sums, *tops;
  uint32_t n_floats;
  RF_DEVICE Parts(const AttendArgs& args, uint32_t row, uint32_t head) : n_floats((args.value_size + 3) / 4 * 4) {
    const uint64_t first = (static_cast<uint64_t>(row) * args.n_heads + head) * kMaxChunks;
    sums = args.parts + first * n_floats;
    tops = args.tops + first * 2;
  }
  RF_DEVICE void put(uint32_t chunk, uint32_t d, const Found& found) const {
    *reinterpret_cast<Float4*>(sums + chunk * n_floats + d) = found.sum;
    if (d == 0) *reinterpret_cast<Float2*>(tops + chunk * 2) = {found.largest, found.total};
  }
  RF_DEVICE Found at(uint32_t chunk, uint32_t d) const {
    const Float2 top = *reinterpret_cast<const Float2*>(tops + chunk * 2);
    return {float4_at(sums + chunk * n_floats + d), top.v[0], top.v[1]};
  }
};

// The partial results of a head's chunks, loaded kAhead at a time.
template <uint32_t kAhead>
RF_DEVICE void add_parts(Found& all, const Parts& parts, uint32_t n, uint32_t d) {
  for (uint32_t first = 0; first < n; first += kAhead) {
    Found of_chunk[kAhead];
    RF_UNROLL
    for (uint32_t c = 0; c < kAhead; c++) {
      if (first + c < n) of_chunk[c] = parts.at(first + c, d);
    }
    RF_UNROLL
    for (uint32_t c = 0; c < kAhead; c++) all.add(of_chunk[c]);  // adding an absent chunk changes nothing
  }
}

// Combines the results of a chunk's waves: into the output if the row has a single chunk, else into a partial result.
template <uint32_t kHeads, uint32_t kHeadSize>
RF_DEVICE void end_chunk(const AttendShared<kHeads, kHeadSize>& shared, const AttendArgs& args, const BlockHeads& heads,
                         uint32_t row, const RowChunks& chunks, uint32_t chunk) {
  const uint32_t n = heads.n * ((args.value_size + 3) / 4);
  for (uint32_t i = thread_index(); i < n; i += kAttendThreads) {
    const HeadWord word(args, i);
    const Found found = of_waves(shared, word);
    if (chunks.n == 1) {
      put_out(args, row, heads.first + word.head, word.d, found);
    } else {
      Parts(args, row, heads.first + word.head).put(chunk, word.d, found);
    }
  }
}

// Called by every block of a row after its chunks: the last block to arrive reduces them.
template <uint32_t kHeads, uint32_t kHeadSize>
RF_DEVICE void join_chunks(AttendShared<kHeads, kHeadSize>& shared, const AttendArgs& args, const BlockHeads& heads,
                           uint32_t row, const RowChunks& chunks) {
  if (chunks.n == 1) return;
  const uint32_t n_blocks = args.n_blocks < chunks.n ? args.n_blocks : chunks.n;
  if (n_blocks > 1) {
    uint32_t* arrivals = args.arrivals + static_cast<uint64_t>(row) * heads.n_blocks + heads.index;
    if (!is_last_to_arrive(arrivals, n_blocks, &shared.n_before)) return;
    if (thread_index() == 0) *arrivals = 0;
  } else {
    sync_block();
  }
  const uint32_t n = heads.n * ((args.value_size + 3) / 4);
  for (uint32_t i = thread_index(); i < n; i += kAttendThreads) {
    const HeadWord word(args, i);
    const Parts parts(args, row, heads.first + word.head);
    Found all;
    if (chunks.n <= 4) {
      add_parts<4>(all, parts, chunks.n, word.d);
    } else {
      add_parts<16>(all, parts, chunks.n, word.d);
    }
    put_out(args, row, heads.first + word.head, word.d, all);
  }
}

// The body of an attention kernel's block. Attention holds the state of one row's lanes and provides
//   look_ahead(span)      reads ahead; the first `settled` positions are from earlier passes
//   begin(span)           reads what else the first chunk needs
//   load_queries()        reads what kernels before this one have written
//   attend(span, next)    processes the positions of a chunk; `next` is the block's next chunk, or empty
//   leave(shared)         writes the waves' sums, maxima and totals
template <class Attention>
RF_DEVICE void attend_row(const AttendArgs& args) {
  // Two buffers where there is room, so that waves can write the next chunk's results before the last are read.
  using Shared = typename Attention::Shared;
  constexpr uint32_t kTurns = sizeof(Shared) <= 20 * 1024 ? 2 : 1;
  RF_SHARED(Shared[kTurns], turns);
  let_next_begin();
  const uint32_t row = block_x();
  Attention attention(args, row);
  const RowChunks& chunks = attention.chunks;
  // A copy before all kernels of the pass has written the batch's own numbers.
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
    if (kTurns == 1 && c != block_z()) sync_shared();  // the previous chunk's results have been read
    attention.leave(shared);
    sync_shared();
    end_chunk(shared, args, attention.heads, row, chunks, c);
  }
  join_chunks(turns[0], args, attention.heads, row, chunks);
}

}  // namespace rocmforge::gpu::RF_KERNELS
