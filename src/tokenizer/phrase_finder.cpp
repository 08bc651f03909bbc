#include "tokenizer/phrase_finder.h"

#include <algorithm>
#include <bit>

namespace rocmforge::tokenizer {

PhraseFinder::PhraseFinder(const std::vector<Phrase>& phrases) {
  if (phrases.empty()) return;
  size_t n_bytes = 0;
  for (const Phrase& phrase : phrases) {
    n_bytes += phrase.text.size();
    longest_ = std::max(longest_, phrase.text.size());
  }
  edges_.resize(std::bit_ceil(2 * n_bytes));
  nodes_.emplace_back();
  for (const Phrase& phrase : phrases) add(phrase);
  link();
}

size_t PhraseFinder::slot_of(uint64_t key) const {
  const size_t mask = edges_.size() - 1;
  for (size_t i = seeded_hash(key, 0, key_) & mask;; i = (i + 1) & mask) {
    if (edges_[i].key == key || edges_[i].key == 0) return i;
  }
}

void PhraseFinder::add(const Phrase& phrase) {
  uint32_t node = 0;
  for (size_t i = phrase.text.size(); i-- > 0;) {
    const auto byte = static_cast<uint8_t>(phrase.text[i]);
    const uint64_t key = static_cast<uint64_t>(node) << 8 | byte;
    Edge* edge = node == 0 ? nullptr : &edges_[slot_of(key)];
    uint32_t& next = edge != nullptr ? edge->node : roots_[byte];
    if (next == 0) {
      next = static_cast<uint32_t>(nodes_.size());
      if (edge != nullptr) edge->key = key;
      nodes_.push_back({.parent = node, .depth = nodes_[node].depth + 1, .byte = byte});
    }
    node = next;
  }
  nodes_[node].value = phrase.value;
}

// By depth: what a node points to is nearer to the root.
void PhraseFinder::link() {
  std::vector<uint32_t> order(nodes_.size());
  std::vector<size_t> begins(longest_ + 2);
  for (const Node& node : nodes_) begins[node.depth + 1]++;
  for (size_t depth = 1; depth < begins.size(); depth++) begins[depth] += begins[depth - 1];
  for (uint32_t i = 0; i < nodes_.size(); i++) order[begins[nodes_[i].depth]++] = i;
  for (const uint32_t i : order) {
    Node& node = nodes_[i];
    if (node.depth > 1) node.fail = step(nodes_[node.parent].fail, node.byte);
    node.output = node.value >= 0 ? i : nodes_[node.fail].output;
  }
}

uint32_t PhraseFinder::step(uint32_t node, uint8_t byte) const {
  while (true) {
    const uint32_t next = child(node, byte);
    if (next != 0 || node == 0) return next;
    node = nodes_[node].fail;
  }
}

void PhraseFinder::Scan::read_block(size_t begin) {
  constexpr size_t kMostBytes = 1u << 16;
  begin_ = begin;
  end_ = std::min(text_.size(), begin + kMostBytes);
  best_.assign(end_ - begin_, 0);
  uint32_t node = 0;
  // Phrases that begin in the block may end behind it.
  for (size_t i = std::min(text_.size(), end_ + finder_.longest_); i-- > begin_;) {
    node = finder_.step(node, static_cast<uint8_t>(text_[i]));
    if (i < end_) best_[i - begin_] = finder_.nodes_[node].output;
  }
}

}  // namespace rocmforge::tokenizer
