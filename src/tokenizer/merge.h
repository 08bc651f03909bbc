#pragma once
// Merging: neighbours join, lowest rank first and leftmost among equals, until no pair can. SPM and BPE differ only in
// which pairs can join and at what rank; they give that as a function.
//
// A short word is scanned for its best pair each time. A long one uses a queue whose cost per merge does not grow with
// the word: a megabyte without a space takes microseconds per kilobyte, as any other text does.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/seeded_hash.h"

namespace rocmforge::tokenizer {

inline constexpr uint32_t kNoSymbol = UINT32_MAX;
inline constexpr uint32_t kNoRank = UINT32_MAX;

struct Joined {
  uint32_t rank = kNoRank;  // kNoRank: the two do not join
  int32_t token = -1;
};

struct Symbol {
  uint32_t begin = 0;  // its first byte in the word
  int32_t token = -1;  // -1: not in the vocabulary, or joined to the symbol before
  uint32_t previous = kNoSymbol;
  uint32_t next = kNoSymbol;
  Joined with_next = {};
};

// Pairs waiting to join, by rank and then by position. Pairs of one rank mostly arrive in the order of their positions,
// so each rank keeps a sorted run, and a heap for latecomers.
class MergeQueue {
 public:
  struct Due {
    uint32_t rank;
    uint32_t position;
    uint32_t soon;  // a position that is likely due a few pops later, to fetch ahead
  };

  void push(uint32_t rank, uint32_t position);
  std::optional<Due> pop();

 private:
  struct Bucket {
    std::vector<uint32_t> run;  // ascending; [0, taken) is done
    size_t taken = 0;
    std::vector<uint32_t> late;  // a heap, least first
    bool empty() const { return taken == run.size() && late.empty(); }
  };
  struct Slot {
    uint32_t rank = kNoRank;
    uint32_t bucket = 0;
  };
  uint32_t bucket_of(uint32_t rank);

  HashKey key_ = process_hash_key();
  std::vector<Bucket> buckets_;
  std::vector<Slot> slots_;      // rank -> bucket; a power of two, at most half full
  std::vector<uint64_t> ranks_;  // a heap of rank << 32 | bucket, least first, of the buckets that hold something
};

namespace detail {

// Joins symbol `at` with the one after it and finds the new pairs on both sides. on_pair(position) is told of each.
template <class Join, class OnPair>
void join_with_next(std::span<Symbol> symbols, uint32_t at, const Join& join, const OnPair& on_pair) {
  Symbol& left = symbols[at];
  Symbol& right = symbols[left.next];
  left.token = left.with_next.token;
  left.next = right.next;
  right.token = -1;
  right.with_next = {};
  if (left.next != kNoSymbol) symbols[left.next].previous = at;
  if (left.previous != kNoSymbol) {
    symbols[left.previous].with_next = join(left.previous, at);
    on_pair(left.previous);
  }
  left.with_next = left.next == kNoSymbol ? Joined{} : join(at, left.next);
  on_pair(at);
}

}  // namespace detail

// Links `symbols`, which hold begin and token, and joins them. Afterwards those reached by `next` from symbols[0]
// stand. join(left, right) -> Joined asks about two neighbours by their positions. REQUIRES: symbols is not empty
template <class Join>
void merge_symbols(std::span<Symbol> symbols, const Join& join) {
  constexpr size_t kMostToScan = 48;
  const auto n = static_cast<uint32_t>(symbols.size());
  for (uint32_t i = 0; i < n; i++) {
    symbols[i].previous = i == 0 ? kNoSymbol : i - 1;
    symbols[i].next = i + 1 == n ? kNoSymbol : i + 1;
  }
  for (uint32_t i = 0; i + 1 < n; i++) symbols[i].with_next = join(i, i + 1);
  symbols[n - 1].with_next = {};

  if (n <= kMostToScan) {
    while (true) {
      uint32_t best = 0;
      for (uint32_t i = 0; i != kNoSymbol; i = symbols[i].next) {
        if (symbols[i].with_next.rank < symbols[best].with_next.rank) best = i;
      }
      if (symbols[best].with_next.rank == kNoRank) return;
      detail::join_with_next(symbols, best, join, [](uint32_t) {});
    }
  }
  MergeQueue queue;
  const auto offer = [&](uint32_t position) {
    const uint32_t rank = symbols[position].with_next.rank;
    if (rank != kNoRank) queue.push(rank, position);
  };
  for (uint32_t i = 0; i < n; i++) offer(i);
  while (const auto due = queue.pop()) {
    __builtin_prefetch(&symbols[due->soon]);
    // What stands there may have changed since; then its new pair, if any, has its own place in the queue.
    if (symbols[due->position].with_next.rank == due->rank) {
      detail::join_with_next(symbols, due->position, join, offer);
    }
  }
}

}  // namespace rocmforge::tokenizer
