#include "tokenizer/trie.h"

#include <bit>

namespace rocmforge::tokenizer {

Trie::Trie(const std::vector<Entry>& entries) {
  if (entries.empty()) return;
  size_t n_bytes = 0;
  for (const Entry& entry : entries) n_bytes += entry.text.size();
  edges_.resize(std::bit_ceil(2 * n_bytes));
  values_.push_back(-1);  // node 0, the root
  const auto new_node = [&] {
    values_.push_back(-1);
    return static_cast<uint32_t>(values_.size() - 1);
  };
  for (const Entry& entry : entries) {
    uint32_t& root = roots_[static_cast<unsigned char>(entry.text[0])];
    if (root == 0) root = new_node();
    uint32_t node = root;
    for (const unsigned char byte : entry.text.substr(1)) {
      const uint64_t key = static_cast<uint64_t>(node) << 8 | byte;
      Edge& edge = edges_[slot_of(key)];
      if (edge.key == 0) edge = {key, new_node()};
      node = edge.node;
    }
    values_[node] = entry.value;
  }
}

size_t Trie::slot_of(uint64_t key) const {
  const size_t mask = edges_.size() - 1;
  for (size_t i = seeded_hash(key, 0, key_) & mask;; i = (i + 1) & mask) {
    if (edges_[i].key == key || edges_[i].key == 0) return i;
  }
}

std::optional<Trie::Match> Trie::longest(std::string_view text, size_t at) const {
  uint32_t node = roots_[static_cast<unsigned char>(text[at])];
  if (node == 0) return std::nullopt;
  std::optional<Match> best;
  for (size_t end = at + 1;; end++) {
    if (values_[node] >= 0) best = Match{end - at, values_[node]};
    if (end == text.size()) return best;
    const Edge& edge = edges_[slot_of(static_cast<uint64_t>(node) << 8 | static_cast<unsigned char>(text[end]))];
    if (edge.key == 0) return best;
    node = edge.node;
  }
}

}  // namespace rocmforge::tokenizer
