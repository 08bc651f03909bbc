#pragma once
// Finds the longest of many phrases at every position of a text, in time linear in the text for any phrases and text. A
// trie alone follows a phrase anew from every position: a file with phrases like "<<<<<<<..." would make it slower by
// the length of a phrase.
//
// An Aho-Corasick automaton over the reversed phrases reads the text backwards. Its state at a position gives the
// longest phrase that begins there.
//
// Threads: immutable after construction; a Scan belongs to one.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/seeded_hash.h"

namespace rocmforge::tokenizer {

class PhraseFinder {
 public:
  struct Phrase {
    std::string_view text;  // not empty; of equal texts the last one counts
    int32_t value;          // not negative
  };
  struct Match {
    size_t n_bytes;
    int32_t value;
  };

  PhraseFinder() = default;
  explicit PhraseFinder(const std::vector<Phrase>& phrases);

  // One pass over a text. The finder and the text must outlive it.
  class Scan {
   public:
    Scan(const PhraseFinder& finder, std::string_view text) : finder_(finder), text_(text) {}
    // The longest phrase that text[at..] begins with. REQUIRES: at < text.size(), at >= that of the last call
    std::optional<Match> longest_at(size_t at) {
      if (finder_.nodes_.empty()) return std::nullopt;
      if (at >= end_) read_block(at);
      const uint32_t node = best_[at - begin_];
      if (node == 0) return std::nullopt;
      return Match{finder_.nodes_[node].depth, finder_.nodes_[node].value};
    }

   private:
    void read_block(size_t begin);

    const PhraseFinder& finder_;
    std::string_view text_;
    size_t begin_ = 0, end_ = 0;  // of the block that has been read
    std::vector<uint32_t> best_;  // per byte of the block, the node of the longest phrase; 0: none
  };

 private:
  struct Node {
    uint32_t parent = 0;
    uint32_t depth = 0;   // the number of bytes of its text
    uint32_t fail = 0;    // the longest proper suffix of its text that is a node
    uint32_t output = 0;  // the longest phrase that is a suffix of its text: itself, or one by way of `fail`; 0: none
    int32_t value = -1;   // of the phrase that ends here; -1: none
    uint8_t byte = 0;     // the last of its text
  };
  struct Edge {
    uint64_t key = 0;  // node << 8 | byte; 0: free (the root's edges are in roots_)
    uint32_t node = 0;
  };
  size_t slot_of(uint64_t key) const;
  // The node whose text is that of `node` plus `byte`; 0: none.
  uint32_t child(uint32_t node, uint8_t byte) const {
    if (node == 0) return roots_[byte];
    return edges_[slot_of(static_cast<uint64_t>(node) << 8 | byte)].node;
  }
  uint32_t step(uint32_t node, uint8_t byte) const;
  void add(const Phrase& phrase);
  void link();

  HashKey key_ = process_hash_key();
  std::array<uint32_t, 256> roots_{};  // the node of each first byte; 0: none
  std::vector<Edge> edges_;            // a power of two, at most half full
  std::vector<Node> nodes_;            // 0 is the root; empty: no phrases
  size_t longest_ = 0;
};

}  // namespace rocmforge::tokenizer
