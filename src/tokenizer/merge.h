#pragma once
// Merging: neighbours are joined, lowest rank first and leftmost among equal ranks, until no pair can be joined. SPM
// and BPE differ only in which pairs can be joined and at what rank, which they give as a function.
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
  uint32_t rank = kNoRank;  // kNoRank: the pair cannot be joined
  int32_t token = -1;
};

struct Symbol {
  uint32_t begin = 0;  // offset of its first byte in the word
  int32_t token = -1;  // -1: not in the vocabulary, or joined to the symbol before
  uint32_t previous = kNoSymbol;
  uint32_t next = kNoSymbol;
  Joined with_next = {};
};

// A priority queue of pairs, by rank and then by position. Pairs of one rank mostly arrive in order of position, so
// each rank has a sorted run, and a heap for pairs that arrive out of order.
class MergeQueue {
 public:
  struct Due {
    uint32_t rank;
    uint32_t position;
    uint32_t soon;  // a position that will probably be popped soon, to prefetch
  };

  void push(uint32_t rank, uint32_t position);
  std::optional<Due> pop();

 private:
  struct Bucket {
    std::vector<uint32_t> run;  // ascending; [0, taken) was popped
    size_t taken = 0;
    std::vector<uint32_t> late;  // a min-heap
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

// Joins symbol `at` with the next one, finds the new pairs on both sides, and calls on_pair(position) for each.
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

// Links `symbols`, in which begin and token are set, and joins them. The result is the list from symbols[0] along
// `next`. join(left, right) -> Joined takes the positions of two neighbours. REQUIRES: symbols is not empty
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
    // The symbol may have changed since it was queued; then its new pair, if any, is queued separately.
    if (symbols[due->position].with_next.rank == due->rank) {
      detail::join_with_next(symbols, due->position, join, offer);
    }
  }
}

}  // namespace rocmforge::tokenizer
