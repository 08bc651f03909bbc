// Attention row by row over the cached positions of its sequence, and the store of new ones. See attend.h.
//
// As many lanes as a head needs, at eight elements each, process one position at a time. They read its keys and values
// once for all query heads of the block, several positions ahead, and keep a running maximum, a running sum of the
// exponentials and the weighted sum of the values for each head. These sets of lanes are combined at the end of a
// chunk.

#include "gpu/runtime.h"

#include "gpu/kernels/attend.h"
#include "gpu/kernels/attend_split.h"
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

// Eight elements as they lie in the cache.
template <class T>
struct Eight;
template <>
struct Eight<F16> {
  Word4 words;
  RF_DEVICE void load(const F16* at) { words = load16(at); }
  RF_DEVICE void put(uint32_t i, F16 v) {
    words.v[i / 2] = i % 2 == 0 ? v.bits : words.v[i / 2] | static_cast<uint32_t>(v.bits) << 16;
  }
  RF_DEVICE float operator[](uint32_t i) const {
    return widen(F16{static_cast<uint16_t>(words.v[i / 2] >> i % 2 * 16)});
  }
};
template <>
struct Eight<float> {
  Word4 words[2];
  RF_DEVICE void load(const float* at) {
    words[0] = load16(at);
    words[1] = load16(at + 4);
  }
  RF_DEVICE void put(uint32_t i, float v) { words[i / 4].v[i % 4] = __builtin_bit_cast(uint32_t, v); }
  RF_DEVICE float operator[](uint32_t i) const { return __builtin_bit_cast(float, words[i / 4].v[i % 4]); }
};

// Eight elements, of which n exist. Heads of a multiple of eight are aligned; lanes past their end (n = 0) read what
// other lanes need: their queries are zero.
template <bool kAligned, class T>
RF_DEVICE Eight<T> load_eight(const T* at, [[maybe_unused]] uint32_t n) {
  Eight<T> out{};
  if constexpr (kAligned) {
    out.load(at);
  } else {
    RF_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
      if (i < n) out.put(i, at[i]);
    }
  }
  return out;
}

template <class T, uint32_t kHeadSize>
struct RowAttention {
  static constexpr uint32_t kLanes = kHeadSize / 8;           // of a position
  static constexpr uint32_t kSets = kAttendThreads / kLanes;  // positions of the block at a time
  static constexpr uint32_t kAhead = sizeof(T) == 2 ? 4 : 2;  // positions of a lane at a time
  using Shared = AttendShared<kAttendHeads, kHeadSize>;

  const AttendArgs& args;
  const BlockHeads heads;
  const RowChunks chunks;
  uint32_t d, n_mine;  // this lane's elements of a head
  float q[kAttendHeads][8];
  float sums[kAttendHeads][8];
  float largest[kAttendHeads], total[kAttendHeads];

  RF_DEVICE RowAttention(const AttendArgs& all, uint32_t row)
      : args(all), heads(all, kAttendHeads, block_y()), chunks(all, row) {
    d = thread_index() % kLanes * 8;
    n_mine = d >= args.head_size ? 0 : args.head_size - d < 8 ? args.head_size - d : 8;
  }

  RF_DEVICE void load_queries() {
    RF_UNROLL
    for (uint32_t h = 0; h < kAttendHeads; h++) {
      const uint64_t at = (static_cast<uint64_t>(block_x()) * args.n_heads + heads.first + h) * args.head_size + d;
      RF_UNROLL
      for (uint32_t i = 0; i < 8; i++) q[h][i] = h < heads.n && i < n_mine ? args.q[at + i] * args.scale : 0.0f;
    }
  }

  RF_DEVICE void look_ahead(Span, uint32_t) {}
  RF_DEVICE void begin(Span) {}

  RF_DEVICE void attend(Span span, Span) {
    RF_UNROLL
    for (uint32_t h = 0; h < kAttendHeads; h++) {
      largest[h] = kLowest;
      total[h] = 0;
      RF_UNROLL
      for (uint32_t i = 0; i < 8; i++) sums[h][i] = 0;
    }
    if (args.head_size % 8 == 0) {
      attend<true>(span.first, span.end);
    } else {
      attend<false>(span.first, span.end);
    }
  }

  template <bool kAligned>
  RF_DEVICE void attend(uint32_t first, uint32_t end) {
    const uint32_t width = args.n_kv_heads * args.head_size;
    const uint32_t offset = heads.kv_head * args.head_size + (n_mine != 0 ? d : 0);
    for (uint32_t p = first + thread_index() / kLanes; p - thread_index() / kLanes < end; p += kSets * kAhead) {
      Eight<T> keys[kAhead], values[kAhead];
      RF_UNROLL
      for (uint32_t j = 0; j < kAhead; j++) {
        // A position past the end is read as the last one.
        const uint32_t at = p + j * kSets < end ? p + j * kSets : end - 1;
        const T* row = cache_row(static_cast<const T*>(args.cache), args.batch, block_x(), at, width) + offset;
        keys[j] = load_eight<kAligned>(row, n_mine);
        values[j] = load_eight<kAligned>(row + static_cast<uint64_t>(kPagePositions) * width, n_mine);
      }
      RF_UNROLL
      for (uint32_t h = 0; h < kAttendHeads; h++) {
        if (h >= heads.n) break;
        float scores[kAhead];
        RF_UNROLL
        for (uint32_t j = 0; j < kAhead; j++) {
          float dot = 0;
          RF_UNROLL
          for (uint32_t i = 0; i < 8; i++) dot += q[h][i] * keys[j][i];
          for (uint32_t mask = kLanes / 2; mask > 0; mask /= 2) dot += shuffle_xor(dot, mask);
          scores[j] = dot;
        }
        // tested once for all: a branch between loads and their use makes AMD's compiler wait there
        if (args.softcap != 0) {
          RF_UNROLL
          for (uint32_t j = 0; j < kAhead; j++) scores[j] = capped(scores[j], args.softcap);
        }
        float next = largest[h];
        RF_UNROLL
        for (uint32_t j = 0; j < kAhead; j++) {
          next = is_seen(p + j * kSets, end) && scores[j] > next ? scores[j] : next;
        }
        const float keep = exp_f32(largest[h] - next);
        total[h] *= keep;
        RF_UNROLL
        for (uint32_t i = 0; i < 8; i++) sums[h][i] *= keep;
        RF_UNROLL
        for (uint32_t j = 0; j < kAhead; j++) {
          const float weight = is_seen(p + j * kSets, end) ? exp_f32(scores[j] - next) : 0.0f;
          total[h] += weight;
          RF_UNROLL
          for (uint32_t i = 0; i < 8; i++) sums[h][i] += weight * values[j][i];
        }
        largest[h] = next;
      }
    }
  }
  RF_DEVICE bool is_seen(uint32_t position, uint32_t end) const { return position >= chunks.first && position < end; }

  // Combines the sets of a wave into the first set, and writes that to shared memory.
  RF_DEVICE void leave(Shared& shared) {
    RF_UNROLL
    for (uint32_t h = 0; h < kAttendHeads; h++) {
      if (h >= heads.n) break;
      for (uint32_t mask = kLanes; mask < kWave; mask *= 2) {
        const float other = shuffle_xor(largest[h], mask);
        const float top = other > largest[h] ? other : largest[h];
        const float mine = exp_f32(largest[h] - top), others = exp_f32(other - top);
        largest[h] = top;
        total[h] = mine * total[h] + others * shuffle_xor(total[h], mask);
        RF_UNROLL
        for (uint32_t i = 0; i < 8; i++) sums[h][i] = mine * sums[h][i] + others * shuffle_xor(sums[h][i], mask);
      }
      if (lane() >= kLanes) continue;
      RF_UNROLL
      for (uint32_t i = 0; i < 8; i++) shared.sums[wave()][h][d + i] = sums[h][i];
      if (lane() == 0) {
        shared.largest[wave()][h] = largest[h];
        shared.total[wave()][h] = total[h];
      }
    }
  }
};

#define RF_ATTEND(size)                                            \
  RF_KERNEL_EARLY(attend_f32_##size, AttendArgs, kAttendThreads) { \
    attend_row<RowAttention<float, size>>(args);                   \
  }                                                                \
  RF_KERNEL_EARLY(attend_f16_##size, AttendArgs, kAttendThreads) { \
    attend_row<RowAttention<F16, size>>(args);                     \
  }
RF_ATTEND(64)
RF_ATTEND(128)
RF_ATTEND(256)

}  // namespace rocmforge::gpu::RF_KERNELS
