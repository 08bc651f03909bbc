#pragma once
// Attention row by row, a block's work on the chunks of a row.
//
// As many lanes as a head needs, at eight elements each, or 32 of more eights, process one position at a time. They
// read its keys and values once for all query heads of the block, several positions ahead, and keep a running maximum,
// a running sum of the exponentials and the weighted sum of the values for each head. These sets of lanes are combined
// at the end of a chunk.

#include "gpu/runtime.h"

#include "gpu/kernels/attend.h"
#include "gpu/kernels/attend_split.h"
#include "gpu/kernels/kv_cache.h"

namespace rocmforge::gpu::RF_KERNELS {

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

// What a kernel's lanes hold. Heads of up to kKeySize elements in queries and keys and kValueSize in values;
// kHeads query heads of a block; is_any: sizes may differ, and there may be ALiBi.
template <uint32_t kSize>
struct OneSize {
  static constexpr uint32_t kKeySize = kSize, kValueSize = kSize, kHeads = kAttendHeads;
  static constexpr bool kIsAny = false;
};

template <class T, class Sizes>
struct RowAttention {
  static constexpr uint32_t kHeads = Sizes::kHeads;
  static constexpr uint32_t kLanes = Sizes::kKeySize < 256 ? Sizes::kKeySize / 8 : 32;     // of a position
  static constexpr uint32_t kKeyEights = (Sizes::kKeySize / 8 + kLanes - 1) / kLanes;      // of a lane
  static constexpr uint32_t kValueEights = (Sizes::kValueSize / 8 + kLanes - 1) / kLanes;  // the same
  static constexpr uint32_t kSets = kAttendThreads / kLanes;  // positions of the block at a time
  static constexpr uint32_t kEights = kKeyEights > kValueEights ? kKeyEights : kValueEights;
  static constexpr uint32_t kAhead =
      (sizeof(T) == 2 ? 4 : 2) / (kEights > 2 ? 2 : kEights);  // positions of a lane at a time
  using Shared = AttendShared<kHeads, Sizes::kValueSize>;
  static_assert(kLanes <= kWave && kAhead > 0);

  const AttendArgs& args;
  const BlockHeads heads;
  const RowChunks chunks;
  uint32_t d;  // the first element of this lane's first eight; of the next ones 8 * kLanes more each
  float q[kHeads][8 * kKeyEights];
  float sums[kHeads][8 * kValueEights];
  float largest[kHeads], total[kHeads];
  float slopes[Sizes::kIsAny ? kHeads : 1];

  RF_DEVICE RowAttention(const AttendArgs& all, uint32_t row)
      : args(all), heads(all, kHeads, block_y()), chunks(all, row) {
    d = thread_index() % kLanes * 8;
  }

  RF_DEVICE uint32_t value_size() const { return Sizes::kIsAny ? args.value_size : args.head_size; }
  // This lane's elements of eight e of a head.
  static RF_DEVICE uint32_t n_of(uint32_t at, uint32_t size) { return at >= size ? 0 : size - at < 8 ? size - at : 8; }
  RF_DEVICE uint32_t n_key(uint32_t e) const { return n_of(d + e * 8 * kLanes, args.head_size); }
  RF_DEVICE uint32_t n_value(uint32_t e) const { return n_of(d + e * 8 * kLanes, value_size()); }

  RF_DEVICE void load_queries() {
    RF_UNROLL
    for (uint32_t h = 0; h < kHeads; h++) {
      const uint64_t at = (static_cast<uint64_t>(block_x()) * args.n_heads + heads.first + h) * args.head_size + d;
      RF_UNROLL
      for (uint32_t e = 0; e < kKeyEights; e++) {
        RF_UNROLL
        for (uint32_t i = 0; i < 8; i++) {
          q[h][8 * e + i] = h < heads.n && i < n_key(e) ? args.q[at + e * 8 * kLanes + i] * args.scale : 0.0f;
        }
      }
      if constexpr (Sizes::kIsAny) slopes[h] = args.alibi_bias != 0 ? alibi_slope_of(args, heads.first + h) : 0.0f;
    }
  }

  RF_DEVICE void look_ahead(Span, uint32_t) {}
  RF_DEVICE void begin(Span) {}

  RF_DEVICE void attend(Span span, Span) {
    RF_UNROLL
    for (uint32_t h = 0; h < kHeads; h++) {
      largest[h] = kLowest;
      total[h] = 0;
      RF_UNROLL
      for (uint32_t i = 0; i < 8 * kValueEights; i++) sums[h][i] = 0;
    }
    if (args.head_size % 8 == 0 && value_size() % 8 == 0) {
      attend<true>(span.first, span.end);
    } else {
      attend<false>(span.first, span.end);
    }
  }

  template <bool kAligned>
  RF_DEVICE void attend(uint32_t first, uint32_t end) {
    const uint32_t key_width = args.n_kv_heads * args.head_size, value_width = args.n_kv_heads * value_size();
    const uint32_t key_head = heads.kv_head * args.head_size, value_head = heads.kv_head * value_size();
    for (uint32_t p = first + thread_index() / kLanes; p - thread_index() / kLanes < end; p += kSets * kAhead) {
      Eight<T> keys[kAhead][kKeyEights], values[kAhead][kValueEights];
      RF_UNROLL
      for (uint32_t j = 0; j < kAhead; j++) {
        // A position past the end is read as the last one.
        const uint32_t at = p + j * kSets < end ? p + j * kSets : end - 1;
        const T* key_row;
        const T* value_row;
        if constexpr (Sizes::kIsAny) {
          const CachePlace<const T> place(static_cast<const T*>(args.cache), args.batch, block_x(), at, key_width,
                                          value_width);
          key_row = place.keys + key_head;
          value_row = place.values + value_head;
        } else {
          key_row = cache_row(static_cast<const T*>(args.cache), args.batch, block_x(), at, key_width) + key_head;
          value_row = key_row + static_cast<uint64_t>(kPagePositions) * key_width;
        }
        RF_UNROLL
        for (uint32_t e = 0; e < kKeyEights; e++) {
          const uint32_t n = n_key(e);
          keys[j][e] = load_eight<kAligned>(key_row + (n != 0 ? d + e * 8 * kLanes : 0), n);
        }
        RF_UNROLL
        for (uint32_t e = 0; e < kValueEights; e++) {
          const uint32_t n = n_value(e);
          values[j][e] = load_eight<kAligned>(value_row + (n != 0 ? d + e * 8 * kLanes : 0), n);
        }
      }
      RF_UNROLL
      for (uint32_t h = 0; h < kHeads; h++) {
        if (h >= heads.n) break;
        float scores[kAhead];
        RF_UNROLL
        for (uint32_t j = 0; j < kAhead; j++) {
          float dot = 0;
          RF_UNROLL
          for (uint32_t i = 0; i < 8 * kKeyEights; i++) dot += q[h][i] * keys[j][i / 8][i % 8];
          for (uint32_t mask = kLanes / 2; mask > 0; mask /= 2) dot += shuffle_xor(dot, mask);
          scores[j] = dot;
        }
        // tested once for all: a branch between loads and their use makes AMD's compiler wait there
        if (args.softcap != 0) {
          RF_UNROLL
          for (uint32_t j = 0; j < kAhead; j++) scores[j] = capped(scores[j], args.softcap);
        }
        if constexpr (Sizes::kIsAny) {
          RF_UNROLL
          for (uint32_t j = 0; j < kAhead; j++) {
            scores[j] -= slopes[h] * static_cast<float>(static_cast<int32_t>(chunks.end - 1 - (p + j * kSets)));
          }
        }
        float next = largest[h];
        RF_UNROLL
        for (uint32_t j = 0; j < kAhead; j++) {
          next = is_seen(p + j * kSets, end) && scores[j] > next ? scores[j] : next;
        }
        const float keep = exp_f32(largest[h] - next);
        total[h] *= keep;
        RF_UNROLL
        for (uint32_t i = 0; i < 8 * kValueEights; i++) sums[h][i] *= keep;
        RF_UNROLL
        for (uint32_t j = 0; j < kAhead; j++) {
          const float weight = is_seen(p + j * kSets, end) ? exp_f32(scores[j] - next) : 0.0f;
          total[h] += weight;
          RF_UNROLL
          for (uint32_t i = 0; i < 8 * kValueEights; i++) sums[h][i] += weight * values[j][i / 8][i % 8];
        }
        largest[h] = next;
      }
    }
  }
  RF_DEVICE bool is_seen(uint32_t position, uint32_t end) const { return position >= chunks.first && position < end; }

  // Combines the sets of a wave into the first set, and writes that to shared memory.
  RF_DEVICE void leave(Shared& shared) {
    RF_UNROLL
    for (uint32_t h = 0; h < kHeads; h++) {
      if (h >= heads.n) break;
      for (uint32_t mask = kLanes; mask < kWave; mask *= 2) {
        const float other = shuffle_xor(largest[h], mask);
        const float top = other > largest[h] ? other : largest[h];
        const float mine = exp_f32(largest[h] - top), others = exp_f32(other - top);
        largest[h] = top;
        total[h] = mine * total[h] + others * shuffle_xor(total[h], mask);
        RF_UNROLL
        for (uint32_t i = 0; i < 8 * kValueEights; i++) {
          sums[h][i] = mine * sums[h][i] + others * shuffle_xor(sums[h][i], mask);
        }
      }
      if (lane() >= kLanes) continue;
      RF_UNROLL
      for (uint32_t i = 0; i < 8 * kValueEights; i++) {
        const uint32_t at = d + i / 8 * 8 * kLanes + i % 8;
        if (kValueEights * kLanes * 8 == Sizes::kValueSize || at < Sizes::kValueSize)
          shared.sums[wave()][h][at] = sums[h][i];
      }
      if (lane() == 0) {
        shared.largest[wave()][h] = largest[h];
        shared.total[wave()][h] = total[h];
      }
    }
  }
};

}  // namespace rocmforge::gpu::RF_KERNELS
