// What the matches of an expression begin with, and how short they are: found without derivatives.

#include <algorithm>

#include "grammar/regex_pool.h"

namespace rocmforge::grammar {
namespace {

constexpr uint32_t kMaxEstimateDepth = 64;

uint32_t saturating_sum(uint32_t a, uint32_t b) {
  return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

}  // namespace

const ByteSet& RegexPool::first_bytes(Regex r, uint32_t depth) {
  if (depth > kMaxEstimateDepth) return kAllByteSet;
  if (first_ids_[r] == 0) {
    const ByteSet found = find_first_bytes(r, depth);
    first_sets_.push_back(found);
    first_ids_[r] = static_cast<uint32_t>(first_sets_.size() - 1);
    count_memory();
  }
  return first_sets_[first_ids_[r]];
}

ByteSet RegexPool::find_first_bytes(Regex r, uint32_t depth) {
  ByteSet out{};
  const auto add = [&](const ByteSet& set) {
    for (size_t i = 0; i < out.size(); i++) out[i] |= set[i];
  };
  while (nodes_[r].kind == Kind::concat) {
    const Regex head = nodes_[r].a;
    add(first_bytes(head, depth + 1));
    if (!nodes_[head].nullable) return out;
    r = nodes_[r].b;
  }
  const Node& n = nodes_[r];
  switch (n.kind) {
    case Kind::nothing:
    case Kind::empty:
      break;
    case Kind::bytes:
      add(sets_[n.a]);
      break;
    case Kind::repeat:
      add(first_bytes(n.a, depth + 1));
      break;
    case Kind::either:
      for (const Regex child : children(n)) add(first_bytes(child, depth + 1));
      break;
    case Kind::both:
      out = kAllByteSet;
      for (const Regex child : children(n)) {
        const ByteSet& set = first_bytes(child, depth + 1);
        for (size_t i = 0; i < out.size(); i++) out[i] &= set[i];
      }
      break;
    case Kind::number:
      for (unsigned b = 0; b < 256; b++) {
        if (next_state(tests_[n.a], number_states_[n.b], static_cast<uint8_t>(b))) add(byte_range(b & 255, b & 255));
      }
      break;
    case Kind::concat:
    case Kind::negation:
      return kAllByteSet;
  }
  return out;
}

void RegexPool::keep_equal(ByteSet& same, Regex r, uint8_t byte, uint32_t depth) const {
  // Of the two sides of the set, the one where the byte is.
  const auto keep_side = [&](const ByteSet& set) {
    const bool is_inside = contains(set, byte);
    for (size_t i = 0; i < same.size(); i++) same[i] &= is_inside ? set[i] : ~set[i];
    return is_inside;
  };
  const auto keep_byte_alone = [&]() {
    same = {};
    same[byte >> 6] = uint64_t{1} << (byte & 63);
  };
  if (depth > kMaxEstimateDepth) return keep_byte_alone();
  for (;; r = nodes_[r].b) {
    // All bytes outside have the same derivative: none.
    if (first_ids_[r] != 0 && !contains(first_sets_[first_ids_[r]], byte)) {
      keep_side(first_sets_[first_ids_[r]]);
      return;
    }
    if (nodes_[r].kind != Kind::concat) break;
    const Regex head = nodes_[r].a;
    keep_equal(same, head, byte, depth + 1);
    if (!nodes_[head].nullable) return;
  }
  const Node& n = nodes_[r];
  switch (n.kind) {
    case Kind::nothing:
    case Kind::empty:
    case Kind::concat:
      break;
    case Kind::bytes:
      keep_side(sets_[n.a]);
      break;
    case Kind::repeat:
    case Kind::negation:
      keep_equal(same, n.a, byte, depth + 1);
      break;
    case Kind::either:
    case Kind::both:
      for (const Regex child : children(n)) keep_equal(same, child, byte, depth + 1);
      break;
    case Kind::number: {
      constexpr ByteSet digits = {0x3ffull << '0' | 1ull << '.'};
      if (keep_side(digits)) keep_byte_alone();
      break;
    }
  }
}

uint32_t RegexPool::least_bytes(Regex r) {
  return least_bytes(r, 0);
}

uint32_t RegexPool::least_bytes(Regex r, uint32_t depth) {
  if (nodes_[r].nullable) return 0;
  if (r == kNothing) return UINT32_MAX;
  if (least_bytes_[r] == UINT32_MAX) least_bytes_[r] = find_least_bytes(nodes_[r], depth);
  return least_bytes_[r];
}

uint32_t RegexPool::find_least_bytes(const Node& n, uint32_t depth) {
  if (depth > kMaxEstimateDepth) return 1;
  switch (n.kind) {
    case Kind::concat: {
      uint32_t sum = least_bytes(n.a, depth + 1);
      Regex r = n.b;
      for (; nodes_[r].kind == Kind::concat && least_bytes_[r] == UINT32_MAX; r = nodes_[r].b) {
        sum = saturating_sum(sum, least_bytes(nodes_[r].a, depth + 1));
      }
      return saturating_sum(sum, least_bytes(r, depth + 1));
    }
    case Kind::either: {
      uint32_t least = UINT32_MAX;
      for (const Regex r : children(n)) least = std::min(least, least_bytes(r, depth + 1));
      return least;
    }
    case Kind::both: {
      uint32_t most = 1;
      for (const Regex r : children(n)) most = std::max(most, least_bytes(r, depth + 1));
      return most;
    }
    case Kind::repeat: {
      const uint64_t product = static_cast<uint64_t>(n.least) * least_bytes(n.a, depth + 1);
      return static_cast<uint32_t>(std::min<uint64_t>(product, UINT32_MAX - 1));
    }
    default:
      return 1;
  }
}

}  // namespace rocmforge::grammar
