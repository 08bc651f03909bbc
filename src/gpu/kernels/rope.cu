// Rotates the pairs of every head by position times frequency. Sines and cosines depend on nothing that kernels write
// (positions come with the batch, frequencies with the model), so they are computed before the wait.

#include "gpu/runtime.h"

#include "gpu/kernels/kv_cache.h"
#include "gpu/kernels/rope.h"
#include "gpu/kernels/turn.h"

namespace rocmforge::gpu::RF_KERNELS {

// The heads of thread i of a row: one pair of kRopeHeads neighbours. also(element of the row's keys, value) for each
// that is of a key.
template <class Also>
RF_DEVICE void turn_heads(const RopeArgs& args, uint32_t i, const Also& also) {
  const uint32_t pair = i % args.n_pairs, n_heads = args.n_heads[0] + args.n_heads[1];
  if (args.factors != nullptr && args.factors_are_made != 0) wait_for_inputs();
  const SineCosine by = turn_of_pair(args, pair, args.positions[block_x()]);
  wait_for_inputs();
  RF_UNROLL
  for (uint32_t n = 0; n < kRopeHeads; n++) {
    const uint32_t head = i / args.n_pairs * kRopeHeads + n;
    if (head >= n_heads) break;
    const bool is_key = head >= args.n_heads[0];
    const uint32_t of_its_kind = is_key ? args.n_heads[1] : args.n_heads[0];
    float* row =
        (is_key ? args.heads[1] : args.heads[0]) + static_cast<uint64_t>(block_x()) * of_its_kind * args.head_size;
    const uint32_t first = (is_key ? head - args.n_heads[0] : head) * args.head_size + pair * args.pair_step;
    const uint32_t second = first + args.pair_apart;
    const float x = row[first], y = row[second];
    row[first] = turned_first(x, y, by);
    row[second] = turned_second(x, y, by);
    if (is_key) {
      also(first, row[first]);
      also(second, row[second]);
    }
  }
}

RF_KERNEL_EARLY(rope, RopeArgs, kRopeThreads) {
  let_next_begin();
  turn_heads(args, block_y() * kRopeThreads + thread_index(), [](uint32_t, float) {});
}

RF_KERNEL(row_rotations, RowRotationsArgs, kRopeThreads) {
  const uint32_t i = block_x() * kRopeThreads + thread_index(), pair = i % args.rope.n_pairs;
  const uint32_t row = i / args.rope.n_pairs;
  if (row >= args.n_rows) return;
  const uint32_t position = args.rope.positions[row];
  const SineCosine by = turn_of_pair(args.rope, pair, position);
  args.turns[2 * static_cast<uint64_t>(i)] = by.sine;
  args.turns[2 * static_cast<uint64_t>(i) + 1] = by.cosine;
  if (pair == 0) {
    args.cache_rows[row] = is_stored(args.batch, row, position) ? row_of_cache(args.batch, row, position) : kNotStored;
  }
}

// Threads beyond those that rotate pairs copy: first the values, then the elements of the keys that are not rotated.
template <class T>
RF_DEVICE void turn_and_store(const RopeStoreArgs& args) {
  let_next_begin();
  const RopeArgs& rope = args.rope;
  const StoreKvArgs& store = args.store;
  const uint32_t row = block_x();
  const uint32_t position = store.batch.positions[row];
  const bool stores = is_stored(store.batch, row, position);
  const CachePlace<T> to(static_cast<T*>(store.cache), store.batch, row, position, store.width, store.value_width);
  uint32_t i = block_y() * kRopeThreads + thread_index();
  if (i < args.n_turning) {
    turn_heads(rope, i, [&](uint32_t at, float v) {
      if (stores) put_cached(to.keys + at, v);
    });
    return;
  }
  wait_for_inputs();
  if (!stores) return;
  i -= args.n_turning;
  if (i < store.value_width) {
    put_cached(to.values + i, store.values[static_cast<uint64_t>(row) * store.value_width + i]);
    return;
  }
  i -= store.value_width;
  const uint32_t n_still = rope.head_size - 2 * rope.n_pairs;
  if (n_still == 0 || i >= rope.n_heads[1] * n_still) return;
  const uint32_t at = i / n_still * rope.head_size + 2 * rope.n_pairs + i % n_still;
  put_cached(to.keys + at, store.keys[static_cast<uint64_t>(row) * store.width + at]);
}
RF_KERNEL_EARLY(rope_store_f32, RopeStoreArgs, kRopeThreads) {
  turn_and_store<float>(args);
}
RF_KERNEL_EARLY(rope_store_f16, RopeStoreArgs, kRopeThreads) {
  turn_and_store<F16>(args);
}

}  // namespace rocmforge::gpu::RF_KERNELS
