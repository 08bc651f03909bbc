// Attention of one query head over the cached positions of its sequence.
//
// Every wave of a block takes positions in turn and keeps a running maximum, a running total of the exponentials and
// the weighted sum of the values, spread over its lanes; the block's waves, and with long sequences the blocks of a
// row's chunks, are joined at the end. A sink is one more score, of no value, that joins last.

#include "gpu/runtime.h"

#include "gpu/kernels/attend.h"
#include "gpu/kernels/attend_share.h"
#include "gpu/kernels/kv_cache.h"

namespace rocmforge::gpu::RF_KERNELS {

template <class T>
RF_DEVICE void store_rows(const StoreKvArgs& args) {
  const uint32_t i = block_y() * kStoreKvThreads + thread_index();
  if (i >= args.width) return;
  const uint32_t row = block_x();
  T* keys = cache_row(static_cast<T*>(args.cache), args.batch, row, args.batch.positions[row], args.width);
  const uint64_t from = static_cast<uint64_t>(row) * args.width + i;
  put_cached(keys + i, args.keys[from]);
  put_cached(keys + static_cast<uint64_t>(kPagePositions) * args.width + i, args.values[from]);
}
RF_KERNEL(store_kv_f32, StoreKvArgs, kStoreKvThreads) {
  store_rows<float>(args);
}
RF_KERNEL(store_kv_f16, StoreKvArgs, kStoreKvThreads) {
  store_rows<F16>(args);
}

// The most negative finite value: its exponential beside any other is zero, and differences stay numbers.
constexpr float kLowest = -3.402823466e38f;

// What a row attends to, and where it is cut.
struct RowChunks {
  uint32_t first, end;  // positions
  uint32_t chunk;       // positions of a chunk
  uint32_t n;           // chunks

  RF_DEVICE RowChunks(const AttendArgs& args, uint32_t row) {
    end = args.batch.positions[row] + 1;
    first = args.window != 0 && args.window < end ? end - args.window : 0;
    chunk = end - first;
    n = 1;
    if (args.parts == nullptr) return;
    const uint32_t share = (chunk + kMaxChunks - 1) / kMaxChunks;
    const uint32_t all = chunk;
    chunk = share > kMinChunkPositions ? share : kMinChunkPositions;
    n = (all + chunk - 1) / chunk;
  }
};

RF_DEVICE uint64_t part_offset(const AttendArgs& args, uint32_t row, uint32_t head, uint32_t chunk) {
  return ((static_cast<uint64_t>(row) * args.n_heads + head) * kMaxChunks + chunk) * (args.head_size + 2);
}

// kHeadSize: the largest that fits.
template <class T, uint32_t kHeadSize>
RF_DEVICE void attend_chunk(const AttendArgs& args) {
  constexpr uint32_t kWaves = kAttendThreads / kWave;
  constexpr uint32_t kPerLane = (kHeadSize + kWave - 1) / kWave;
  struct Shared {
    float sums[kWaves][kHeadSize];
    float largest[kWaves], total[kWaves];
  };
  RF_SHARED(Shared, shared);
  const uint32_t row = block_x(), head = block_y(), chunk = block_z();
  if (args.min_tiled_rows != 0 && args.batch.n_together[row] >= args.min_tiled_rows) return;
  const RowChunks chunks(args, row);
  if (chunk >= chunks.n) return;
  const uint32_t first = chunks.first + chunk * chunks.chunk;
  const uint32_t end = chunk + 1 < chunks.n ? first + chunks.chunk : chunks.end;
  const uint32_t width = args.n_kv_heads * args.head_size;
  const uint32_t offset = head / (args.n_heads / args.n_kv_heads) * args.head_size;
  const uint64_t query = (static_cast<uint64_t>(row) * args.n_heads + head) * args.head_size;

  float q[kPerLane], sums[kPerLane] = {};
  RF_UNROLL
  for (uint32_t i = 0; i < kPerLane; i++) {
    const uint32_t d = lane() + i * kWave;
    q[i] = d < args.head_size ? args.q[query + d] * args.scale : 0.0f;
  }
  float largest = kLowest, total = 0;
  for (uint32_t p = first + wave(); p < end; p += kWaves) {
    const T* keys = cache_row(static_cast<const T*>(args.cache), args.batch, row, p, width) + offset;
    const T* values = keys + static_cast<uint64_t>(kPagePositions) * width;
    float dot = 0;
    RF_UNROLL
    for (uint32_t i = 0; i < kPerLane; i++) {
      const uint32_t d = lane() + i * kWave;
      if (d < args.head_size) dot += q[i] * cached(keys + d);
    }
    const float score = capped(wave_sum(dot), args.softcap);
    const float next = score > largest ? score : largest;
    const float keep = exp_f32(largest - next), weight = exp_f32(score - next);
    RF_UNROLL
    for (uint32_t i = 0; i < kPerLane; i++) {
      const uint32_t d = lane() + i * kWave;
      if (d < args.head_size) sums[i] = sums[i] * keep + weight * cached(values + d);
    }
    total = total * keep + weight;
    largest = next;
  }

  RF_UNROLL
  for (uint32_t i = 0; i < kPerLane; i++) {
    const uint32_t d = lane() + i * kWave;
    if (d < args.head_size) shared.sums[wave()][d] = sums[i];
  }
  if (lane() == 0) {
    shared.largest[wave()] = largest;
    shared.total[wave()] = total;
  }
  sync_block();
  largest = shared.largest[0];
  for (uint32_t w = 1; w < kWaves; w++) largest = shared.largest[w] > largest ? shared.largest[w] : largest;
  float shares[kWaves];
  total = 0;
  for (uint32_t w = 0; w < kWaves; w++) {
    shares[w] = exp_f32(shared.largest[w] - largest);
    total += shares[w] * shared.total[w];
  }
  const float share = share_of_total(args, head, largest, total);
  float* part = chunks.n == 1 ? nullptr : args.parts + part_offset(args, row, head, chunk);
  for (uint32_t d = thread_index(); d < args.head_size; d += kAttendThreads) {
    float sum = 0;
    for (uint32_t w = 0; w < kWaves; w++) sum += shares[w] * shared.sums[w][d];
    if (part == nullptr) {
      args.out[query + d] = sum * share;
    } else {
      part[d] = sum;
    }
  }
  if (part != nullptr && thread_index() == 0) {
    part[args.head_size] = largest;
    part[args.head_size + 1] = total;
  }
}

#define RF_ATTEND(size)                                      \
  RF_KERNEL(attend_f32_##size, AttendArgs, kAttendThreads) { \
    attend_chunk<float, size>(args);                         \
  }                                                          \
  RF_KERNEL(attend_f16_##size, AttendArgs, kAttendThreads) { \
    attend_chunk<F16, size>(args);                           \
  }
RF_ATTEND(64)
RF_ATTEND(128)
RF_ATTEND(256)

// A block joins the chunks of a row and a head. A row of one chunk is done already.
RF_KERNEL(join_chunks, AttendArgs, kAttendThreads) {
  const uint32_t row = block_x(), head = block_y();
  const uint32_t n_chunks = RowChunks(args, row).n;
  if (n_chunks == 1) return;
  const uint32_t stride = args.head_size + 2;
  const float* parts = args.parts + part_offset(args, row, head, 0);
  float* out = args.out + (static_cast<uint64_t>(row) * args.n_heads + head) * args.head_size;
  float largest = kLowest;
  for (uint32_t c = 0; c < n_chunks; c++) {
    const float of_chunk = parts[c * stride + args.head_size];
    largest = of_chunk > largest ? of_chunk : largest;
  }
  for (uint32_t d = thread_index(); d < args.head_size; d += kAttendThreads) {
    float sum = 0, total = 0;
    for (uint32_t c = 0; c < n_chunks; c++) {
      const float share = exp_f32(parts[c * stride + args.head_size] - largest);
      sum += share * parts[c * stride + d];
      total += share * parts[c * stride + args.head_size + 1];
    }
    out[d] = sum * share_of_total(args, head, largest, total);
  }
}

}  // namespace rocmforge::gpu::RF_KERNELS
