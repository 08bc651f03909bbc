#pragma once
// The epilogue of products of 17 to 128 rows (kernels/stream_rows_hopper.h). For Hopper alone.

#include "gpu/fragment/hopper.h"
#include "gpu/kernels/stream_after.h"
#include "gpu/kernels/stream_many_put.h"
#include "gpu/kernels/stream_rows_hopper.h"
#include "gpu/kernels/turn.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

namespace global {
RF_DEVICE uint32_t add_released(uint32_t* at, uint32_t n) {
  uint32_t before;
  asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], %2;" : "=r"(before) : "l"(at), "r"(n) : "memory");
  return before;
}
RF_DEVICE uint32_t acquired(const uint32_t* at) {
  uint32_t value;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
RF_DEVICE float4 load4(const float* at) {  // data written by other blocks, bypassing the L1 cache
  return __ldcg(reinterpret_cast<const float4*>(at));
}
}  // namespace global

// For sets of kRows rows.
template <uint32_t kRows>
class RowsOutputs {
  static constexpr uint32_t kThreads = rows_threads(kRows), kWarps = kThreads / 32;
  static constexpr uint32_t kOutputs = rows_tile_outputs(kRows);

 public:
  static constexpr uint32_t kSums = kRows / 2;  // per lane
  using Sums = float[kSums];                    // [4n + e]: row 8n + 2t + e % 2, output g + e / 2 * 8
  struct Where {
    uint32_t part, out;
    bool is_there;
  };

  RF_DEVICE RowsOutputs(const RowsArgs& a, uint32_t warp)
      : args_(a), warp_(warp), share_(a.n_shares > 1 ? (block_x() - a.first_block) % a.n_shares : 0) {}

  RF_DEVICE uint32_t n_sets() const { return (args_.n_rows + kRows - 1) / kRows; }
  RF_DEVICE bool activates() const { return args_.after != StreamAfter::store; }

  // This warp's sixteen outputs of a tile: two runs of eight, adjacent or eight of a gate and the matching eight of the
  // up part.
  RF_DEVICE Where where(uint32_t tile) const {
    Where w{0, tile * kOutputs + kStreamOutputs * warp_, true};
    if (activates()) {
      w.out /= 2;
    } else {
      while (w.part + 1 < args_.n_parts && w.out >= args_.parts[w.part].n_out) w.out -= args_.parts[w.part++].n_out;
    }
    w.is_there = w.out < args_.parts[w.part].n_out;
    if (!w.is_there) w.out = 0;
    return w;
  }

  // The scales of the rows' outputs are in shared memory, valid once all threads of rows have arrived at a barrier.
  RF_DEVICE void set_scales(uint32_t barrier_at, uint32_t at) {
    scales_barrier_ = barrier_at;
    scales_ = static_cast<float*>(__cvta_shared_to_generic(at));
  }
  RF_DEVICE void make_barrier() const { barrier::make(scales_barrier_, kRows); }
  // Half a warp computes each row's scale.
  RF_DEVICE void find_scales() const {
    if (!has_scales()) return;
    const RowsNorm& norm = args_.norm;
    const uint32_t n_pieces = args_.width / kStreamColumns;
    for (uint32_t row = thread_index() / 16; row < kRows; row += kThreads / 16) {
      const bool is_there = row < args_.n_rows;
      const float lift = is_there ? __ldcg(norm.lifts + row) : 1.0f;
      float squares = 0;
      for (uint32_t p = lane() % 16; p < n_pieces && is_there; p += 16) {
        squares += __ldcg(norm.squares + row * n_pieces + p);
      }
      RF_UNROLL
      for (uint32_t mask = 8; mask > 0; mask /= 2) squares += shuffle_xor(squares, mask);
      const float scale = 1.0f / sqrt_f32(squares / static_cast<float>(args_.width) + norm.epsilon);
      if (lane() % 16 != 0) continue;
      scales_[row] = scale / lift;
      barrier::arrive(scales_barrier_);
      if (is_there && block_x() == args_.first_block && norm.next_lifts != nullptr) {
        norm.next_lifts[row] = row_lift(scale);
      }
    }
  }

  RF_DEVICE void put(Sums& total, uint32_t tile, uint32_t set) const {
    const Where w = where(tile);
    if (!w.is_there) return;
    if (has_scales()) scale(total);
    const MatvecPart& part = args_.parts[w.part];
    const MatvecPart& other = activates() ? args_.parts[1] : part;
    const uint32_t at = w.out + lane() / 4, other_at = activates() ? at : at + 8;
    const float bias = part.bias != nullptr ? part.bias[at] : 0.0f;
    const float other_bias = other.bias != nullptr ? other.bias[other_at] : 0.0f;
    if (part.out != nullptr) {
      each_row(set, part.n_out, [&](uint32_t i, uint64_t place) {
        part.out[place + at] = total[i] + bias;
        other.out[place + other_at] = total[i + 2] + other_bias;
      });
    }
    if (args_.sum != nullptr) {
      each_row(set, part.n_out, [&](uint32_t i, uint64_t place) {
        args_.sum[place + at] += args_.sum_scale * (total[i] + bias);
        args_.sum[place + other_at] += args_.sum_scale * (total[i + 2] + other_bias);
      });
    }
    with_activation(args_.after, [&](const auto& activate) {
      each_row(set, part.n_out, [&](uint32_t i, uint64_t place) {
        args_.activated[place + at] = activate(total[i] + bias, total[i + 2] + other_bias);
      });
    });
  }

  // Writes the partial sums of this block's slice.
  RF_DEVICE void put_partial(const Sums& total, uint32_t tile, uint32_t set) const {
    float* to = partial_of(tile, share_, set) + warp_ * kStreamOutputs + lane() / 4;
    RF_UNROLL
    for (uint32_t i = 0; i < kSums; i++) {
      const uint32_t row = i / 4 * 8 + lane() % 4 * 2 + i % 2;
      to[row * kOutputs + i / 2 % 2 * 8] = total[i];
    }
  }
  // Barrier of the tile's blocks; then each block reduces some of the rows.
  RF_DEVICE void put_from_all(uint32_t tile) const {
    uint32_t *here = args_.counters + 2 * tile, *done = here + 1;
    __threadfence();
    sync_block();
    if (thread_index() == 0) {
      global::add_released(here, 1);
      while (global::acquired(here) < args_.n_shares) {
      }
    }
    sync_block();
    if (has_scales()) barrier::wait(scales_barrier_, 0);
    if (kOutputs == kStreamColumns && args_.next.norm_weight != nullptr) {
      put_sums_and_next(tile);
    } else {
      for (uint32_t set = 0; set < n_sets(); set++) put_share(tile, set);
    }
    if (thread_index() == 0 && global::add_released(done, 1) == args_.n_shares - 1) *here = *done = 0;
  }

 private:
  RF_DEVICE bool has_scales() const { return args_.norm.squares != nullptr; }
  // Calls put(i, place) for this lane's rows of a set, with the address of the row's outputs; the sums are total[i] and
  // total[i + 2].
  template <class Put>
  RF_DEVICE void each_row(uint32_t set, uint32_t n_out, const Put& put_row) const {
    const uint32_t first = set * kRows + lane() % 4 * 2;
    uint64_t place = uint64_t{first} * n_out;
    RF_UNROLL
    for (uint32_t i = 0; i < kSums; i += 4) {
      if (first + 2 * i < args_.n_rows) put_row(i, place);
      if (first + 2 * i + 1 < args_.n_rows) put_row(i + 1, place + n_out);
      place += uint64_t{8} * n_out;
    }
  }
  // The partial sums of a slice: row by row, the tile's outputs in the order of the warps.
  RF_DEVICE float* partial_of(uint32_t tile, uint32_t share, uint32_t set) const {
    const uint64_t n = uint64_t{set} * args_.n_tiles + tile;
    return args_.partial + (n * args_.n_shares + share) * kRowsTileSums;
  }
  // Reduces every n_shares-th row; a thread has four of its outputs.
  RF_DEVICE void put_share(uint32_t tile, uint32_t set) const {
    constexpr uint32_t kAcross = kOutputs / 4, kAtOnce = kThreads / kAcross;
    const uint32_t within = thread_index() % kAcross * 4;
    uint32_t part = 0, at = tile * kOutputs + within;
    if (activates()) {
      if (within / 8 % 2 == 1) return;  // outputs of the second part
      at = (tile * kOutputs + within / 16 * 16) / 2 + within % 8;
    } else {
      while (part + 1 < args_.n_parts && at >= args_.parts[part].n_out) at -= args_.parts[part++].n_out;
    }
    if (at >= args_.parts[part].n_out) return;
    const uint32_t begin = set * kRows, left = args_.n_rows - begin, n = left < kRows ? left : kRows;
    const float* from = partial_of(tile, 0, set) + within;
    const auto each_row_of_share = [&](const auto& put_row) {
      for (uint32_t row = share_ + args_.n_shares * (thread_index() / kAcross); row < n;
           row += kAtOnce * args_.n_shares) {
        put_row(begin + row, from + row * kOutputs);
      }
    };
    if (args_.roles[part] != StreamRole::none) {
      each_row_of_share(
          [&](uint32_t row, const float* sums) { put_turned(part, row, at, scaled(sum_of_shares(sums), row)); });
      return;
    }
    each_row_of_share([&](uint32_t row, const float* sums) {
      const float4 value = scaled(sum_of_shares(sums), row);
      const float4 partner = activates() ? scaled(sum_of_shares(sums + 8), row) : value;
      put_four(args_.parts[part], uint64_t{row} * args_.parts[part].n_out, at, value, partner);
    });
  }
  // Reduces every n_shares-th row of a tile, a warp each: adds to the sum, and writes the next product's inputs.
  RF_DEVICE void put_sums_and_next(uint32_t tile) const {
    const RowsNext& next = args_.next;
    const MatvecPart& part = args_.parts[0];
    const uint32_t within = 8 * lane(), at = tile * kOutputs + within, n_pieces = part.n_out / kStreamColumns;
    const float* from = partial_of(tile, 0, 0) + within;
    for (uint32_t row = share_ + args_.n_shares * warp_; row < args_.n_rows; row += args_.n_shares * kWarps) {
      const uint64_t place = uint64_t{row} * part.n_out;
      float v[8], weights[8];
      load_eight(v, args_.sum + place + tile * kOutputs);
      load_eight(weights, next.norm_weight + tile * kOutputs);
      const float lift = __ldcg(next.lifts + row);
      const float4 low = scaled(sum_of_shares(from + row * kOutputs), row);
      const float4 high = scaled(sum_of_shares(from + row * kOutputs + 4), row);
      add_to(v, 0, with_bias(part, at, low));
      add_to(v, 4, with_bias(part, at + 4, high));
      four_at(args_.sum + place + at) = {v[0], v[1], v[2], v[3]};
      four_at(args_.sum + place + at + 4) = {v[4], v[5], v[6], v[7]};
      float squares = 0;
      RF_UNROLL
      for (uint32_t e = 0; e < 8; e++) squares = fmaf(v[e], v[e], squares);
      squares = wave_sum(squares);
      if (lane() == 0) next.squares[row * n_pieces + tile] = squares;
      RF_UNROLL
      for (uint32_t e = 0; e < 8; e++) v[e] = v[e] * lift * weights[e];
      ManyPut(next.to, row, n_pieces)(tile, v);
    }
  }
  RF_DEVICE void add_to(float (&v)[8], uint32_t first, const float4& value) const {
    const float by = args_.sum_scale;
    v[first] += by * value.x, v[first + 1] += by * value.y;
    v[first + 2] += by * value.z, v[first + 3] += by * value.w;
  }
  RF_DEVICE static float4 with_bias(const MatvecPart& part, uint32_t at, const float4& value) {
    return part.bias == nullptr ? value : plus(value, *reinterpret_cast<const float4*>(part.bias + at));
  }
  RF_DEVICE float4 scaled(const float4& v, uint32_t row) const {
    if (!has_scales()) return v;
    const float by = scales_[row];
    return {v.x * by, v.y * by, v.z * by, v.w * by};
  }
  RF_DEVICE void scale(Sums& total) const {
    barrier::wait(scales_barrier_, 0);
    RF_UNROLL
    for (uint32_t i = 0; i < kSums; i++) total[i] *= scales_[i / 4 * 8 + lane() % 4 * 2 + i % 2];
  }
  RF_DEVICE void put_turned(uint32_t p, uint32_t row, uint32_t at, float4 value) const {
    const MatvecPart& part = args_.parts[p];
    const RowsTurn& turn = args_.turn;
    const StreamRole role = args_.roles[p];
    value = with_bias(part, at, value);
    if (role != StreamRole::value) value = turned(value, row, at % turn.head_size);
    if (role == StreamRole::query) {
      four_at(part.out + uint64_t{row} * part.n_out + at) = value;
      return;
    }
    if (turn.cache_rows[row] == kNotStored) return;
    const uint32_t cache_row = turn.cache_rows[row] + (role == StreamRole::value ? kPagePositions : 0);
    const uint64_t place = uint64_t{cache_row} * turn.width + at;
    if (turn.caches_halves) {
      const __half2 low = __floats2half2_rn(value.x, value.y), high = __floats2half2_rn(value.z, value.w);
      *reinterpret_cast<uint2*>(static_cast<uint16_t*>(turn.cache) + place) = {
          *reinterpret_cast<const uint32_t*>(&low), *reinterpret_cast<const uint32_t*>(&high)};
    } else {
      four_at(static_cast<float*>(turn.cache) + place) = value;
    }
  }
  // v rotated (RoPE), its elements starting at in_head. All lanes of a warp take part.
  RF_DEVICE float4 turned(const float4& v, uint32_t row, uint32_t in_head) const {
    const RowsTurn& turn = args_.turn;
    const float* of_row = turn.turns + uint64_t{row} * turn.n_pairs * 2;
    const auto by = [&](uint32_t pair) { return reinterpret_cast<const SineCosine&>(of_row[2 * pair]); };
    if (turn.are_halves) {
      const uint32_t lanes = turn.n_pairs / 4, pair = in_head % turn.n_pairs;
      const float4 other{shuffle_xor(v.x, lanes), shuffle_xor(v.y, lanes), shuffle_xor(v.z, lanes),
                         shuffle_xor(v.w, lanes)};
      if (in_head < turn.n_pairs) {
        return {turned_first(v.x, other.x, by(pair)), turned_first(v.y, other.y, by(pair + 1)),
                turned_first(v.z, other.z, by(pair + 2)), turned_first(v.w, other.w, by(pair + 3))};
      }
      return {turned_second(other.x, v.x, by(pair)), turned_second(other.y, v.y, by(pair + 1)),
              turned_second(other.z, v.z, by(pair + 2)), turned_second(other.w, v.w, by(pair + 3))};
    }
    if (in_head >= 2 * turn.n_pairs) return v;
    const SineCosine first = by(in_head / 2), second = by(in_head / 2 + 1);
    return {turned_first(v.x, v.y, first), turned_second(v.x, v.y, first), turned_first(v.z, v.w, second),
            turned_second(v.z, v.w, second)};
  }
  RF_DEVICE float4 sum_of_shares(const float* from) const {
    float4 shares[kRowsMaxShares];
    RF_UNROLL
    for (uint32_t k = 0; k < kRowsMaxShares; k++) {
      if (k < args_.n_shares) shares[k] = global::load4(from + k * kRowsTileSums);
    }
    float4 sum{};
    RF_UNROLL
    for (uint32_t k = 0; k < kRowsMaxShares; k++) {
      if (k < args_.n_shares) sum = plus(sum, shares[k]);
    }
    return sum;
  }
  RF_DEVICE static float4 plus(const float4& a, const float4& b) {
    return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
  }
  RF_DEVICE static float4& four_at(float* at) { return *reinterpret_cast<float4*>(at); }
  // Stores four outputs of a row that begins at `place`.
  RF_DEVICE void put_four(const MatvecPart& part, uint64_t place, uint32_t at, float4 value, float4 partner) const {
    value = with_bias(part, at, value);
    if (part.out != nullptr) four_at(part.out + place + at) = value;
    if (args_.sum != nullptr) {
      float4& sum = four_at(args_.sum + place + at);
      const float by = args_.sum_scale;
      sum = {sum.x + by * value.x, sum.y + by * value.y, sum.z + by * value.z, sum.w + by * value.w};
    }
    if (!activates()) return;
    const MatvecPart& other = args_.parts[1];
    partner = with_bias(other, at, partner);
    if (other.out != nullptr) four_at(other.out + place + at) = partner;
    with_activation(args_.after, [&](const auto& activate) {
      four_at(args_.activated + place + at) = {activate(value.x, partner.x), activate(value.y, partner.y),
                                               activate(value.z, partner.z), activate(value.w, partner.w)};
    });
  }

  const RowsArgs& args_;
  uint32_t warp_, share_;
  uint32_t scales_barrier_ = 0;
  float* scales_ = nullptr;  // in shared memory
};

}  // namespace rocmforge::gpu::RF_KERNELS
