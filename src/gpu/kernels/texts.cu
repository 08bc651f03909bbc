// Steps over whole texts. See texts.h.

#include "gpu/runtime.h"

#include "gpu/kernels/attend_share.h"
#include "gpu/kernels/texts.h"

namespace rocmforge::gpu::RF_KERNELS {

constexpr float kLowestScore = -3.402823466e38f;  // finite: differences stay numbers
constexpr uint32_t kRowThreads = kAttendTextsThreads / kAttendTextsRows;

template <uint32_t kSize>
struct TextTile {
  static constexpr uint32_t kKeys = kSize <= 128 ? 32 : 16;
  float queries[kAttendTextsRows][kSize + 1];
  float cached[kKeys][kSize + 1];  // keys, then values
  float weights[kAttendTextsRows][kKeys];
};

// A row is the work of kRowThreads neighbouring threads; all rows go through the tiles of keys together. The rows of a
// block may belong to several texts: each masks what is not of its own.
template <uint32_t kSize>
struct TextAttention {
  using Tile = TextTile<kSize>;
  static constexpr uint32_t kPerThread = kSize / kRowThreads, kScores = Tile::kKeys / kRowThreads;

  const AttendTextsArgs& args;
  Tile& tile;
  uint32_t head, kv_head, row, slice;  // slice: this thread among those of its row
  uint32_t first = 0, end = 0;         // the rows that the row sees
  float slope;
  float largest = kLowestScore, total = 0, sums[kPerThread] = {};

  RF_DEVICE TextAttention(const AttendTextsArgs& all, Tile& shared) : args(all), tile(shared) {
    head = block_y();
    kv_head = head / (args.n_heads / args.n_kv_heads);
    row = block_x() * kAttendTextsRows + thread_index() / kRowThreads;
    slice = thread_index() % kRowThreads;
    slope = args.alibi_bias != 0.0f ? alibi_slope_of(args, head) : 0.0f;
    if (row >= args.n_rows) return;
    const uint32_t begin = args.first_row[row], n = args.n_together[row];
    first = row - begin > args.reach ? row - args.reach : begin;
    end = begin + n - row > args.reach ? row + args.reach + 1 : begin + n;
  }

  RF_DEVICE void load_queries() {
    const uint32_t r = thread_index() / kRowThreads;
    for (uint32_t d = slice; d < kSize; d += kRowThreads) {
      const bool inside = row < args.n_rows && d < args.head_size;
      tile.queries[r][d] =
          inside ? args.q[(static_cast<uint64_t>(row) * args.n_heads + head) * args.head_size + d] : 0.0f;
    }
  }

  // Rows [base, base + kKeys) of keys or values; zeros where there are none.
  RF_DEVICE void load(const float* from, uint32_t size, uint32_t base) {
    sync_block();
    for (uint32_t i = thread_index(); i < Tile::kKeys * kSize; i += kAttendTextsThreads) {
      const uint32_t j = i / kSize, d = i % kSize;
      const bool inside = base + j < args.n_rows && d < size;
      tile.cached[j][d] =
          inside ? from[(static_cast<uint64_t>(base + j) * args.n_kv_heads + kv_head) * size + d] : 0.0f;
    }
    sync_block();
  }

  RF_DEVICE bool sees(uint32_t key) const { return key >= first && key < end; }

  RF_DEVICE float score_of(uint32_t j, uint32_t key) const {
    const float* q = tile.queries[thread_index() / kRowThreads];
    float dot = 0;
    for (uint32_t d = 0; d < kSize; d++) dot = fma_f32(q[d], tile.cached[j][d], dot);
    const uint32_t distance = key > row ? key - row : row - key;
    const float score = capped(dot * args.scale, args.softcap) - slope * static_cast<float>(distance);
    return args.buckets.biases == nullptr ? score : score + bias_of(distance, key > row);
  }

  // Of the buckets the second half is for keys behind the row. Keys that the row does not see have distances, too.
  RF_DEVICE float bias_of(uint32_t distance, bool is_behind) const {
    constexpr uint32_t kLong = kMaxDistanceBuckets / 4;
    uint32_t n_long = 0, n_begun = 0;
    RF_UNROLL
    for (uint32_t i = 0; i < kLong; i++) {
      n_long += args.buckets.starts[i] != UINT32_MAX ? 1 : 0;
      n_begun += args.buckets.starts[i] <= distance ? 1 : 0;
    }
    const uint32_t n_exact = args.buckets.n_exact;
    const uint32_t bucket = distance < n_exact ? distance : n_exact + n_begun - 1;
    return args.buckets.biases[((is_behind ? n_exact + n_long : 0) + bucket) * args.n_heads + head];
  }

  // A step of the online softmax; gives what the sums so far are multiplied by.
  RF_DEVICE float weigh(uint32_t base) {
    float scores[kScores], next = largest;
    RF_UNROLL
    for (uint32_t i = 0; i < kScores; i++) {
      const uint32_t j = i * kRowThreads + slice;
      scores[i] = score_of(j, base + j);
      if (sees(base + j) && scores[i] > next) next = scores[i];
    }
    for (uint32_t mask = kRowThreads / 2; mask > 0; mask /= 2) {
      const float other = shuffle_xor(next, mask);
      next = other > next ? other : next;
    }
    const float keep = exp_f32(largest - next);
    float added = 0;
    RF_UNROLL
    for (uint32_t i = 0; i < kScores; i++) {
      const uint32_t j = i * kRowThreads + slice;
      const float weight = sees(base + j) ? exp_f32(scores[i] - next) : 0.0f;
      tile.weights[thread_index() / kRowThreads][j] = weight;
      added += weight;
    }
    for (uint32_t mask = kRowThreads / 2; mask > 0; mask /= 2) added += shuffle_xor(added, mask);
    total = total * keep + added;
    largest = next;
    return keep;
  }

  RF_DEVICE void add_values(float keep) {
    const float* weights = tile.weights[thread_index() / kRowThreads];
    RF_UNROLL
    for (uint32_t i = 0; i < kPerThread; i++) sums[i] *= keep;
    for (uint32_t j = 0; j < Tile::kKeys; j++) {
      RF_UNROLL
      for (uint32_t i = 0; i < kPerThread; i++) {
        sums[i] = fma_f32(weights[j], tile.cached[j][i * kRowThreads + slice], sums[i]);
      }
    }
  }

  RF_DEVICE void run() {
    load_queries();
    // All keys that any row of the block may see: rows are in the order of their texts.
    const uint32_t low = block_x() * kAttendTextsRows;
    const uint32_t high = low + kAttendTextsRows < args.n_rows ? low + kAttendTextsRows - 1 : args.n_rows - 1;
    const uint32_t begin = args.first_row[low], all_end = args.first_row[high] + args.n_together[high];
    const uint32_t from = low - begin > args.reach ? low - args.reach : begin;
    const uint32_t to = all_end - high > args.reach ? high + args.reach + 1 : all_end;
    for (uint32_t base = from; base < to; base += Tile::kKeys) {
      load(args.k, args.head_size, base);
      const float keep = weigh(base);
      load(args.v, args.value_size, base);
      add_values(keep);
    }
    if (row >= args.n_rows) return;
    float* out = args.out + (static_cast<uint64_t>(row) * args.n_heads + head) * args.value_size;
    RF_UNROLL
    for (uint32_t i = 0; i < kPerThread; i++) {
      const uint32_t d = i * kRowThreads + slice;
      if (d < args.value_size) out[d] = quotient_f32(sums[i], total);
    }
  }
};

#define RF_ATTEND_TEXTS(size)                                            \
  RF_KERNEL(attend_texts_##size, AttendTextsArgs, kAttendTextsThreads) { \
    RF_SHARED(TextTile<size>, tile);                                     \
    TextAttention<size>(args, tile).run();                               \
  }
RF_ATTEND_TEXTS(64)
RF_ATTEND_TEXTS(128)
RF_ATTEND_TEXTS(256)

RF_KERNEL(pool_texts, PoolTextsArgs, kElementThreads) {
  const uint32_t last = args.output_rows[block_x()], first = args.first_row[last];
  const uint32_t asked = args.poolings[block_x()];
  const auto pooling =
      static_cast<TextPooling>(asked == static_cast<uint32_t>(TextPooling::rank) ? args.of_rank : asked);
  const bool is_mean = pooling == TextPooling::mean;
  const uint32_t begin = pooling == TextPooling::last ? last : first;
  const uint32_t n = is_mean ? last + 1 - first : 1;
  for (uint32_t d = thread_index(); d < args.width; d += kElementThreads) {
    float sum = 0;
    for (uint32_t r = 0; r < n; r++) sum += args.in[static_cast<uint64_t>(begin + r) * args.width + d];
    args.out[static_cast<uint64_t>(block_x()) * args.width + d] =
        is_mean ? quotient_f32(sum, static_cast<float>(n)) : sum;
  }
}

RF_KERNEL(add_vector, AddVectorArgs, kElementThreads) {
  const uint64_t i = static_cast<uint64_t>(block_x()) * kElementThreads + thread_index();
  if (i < args.n) args.x[i] += args.vector[i % args.width];
}

}  // namespace rocmforge::gpu::RF_KERNELS
