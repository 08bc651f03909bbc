// What the matches of an expression begin with, and how short they are: found without derivatives.

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "grammar/regex_pool.h"

namespace rocmforge::grammar {
namespace {

constexpr uint32_t kMaxEstimateDepth = 64;
constexpr uint32_t kAlone = 1u << 16;  // added to a class: the number of its group, when it is the only one there

uint32_t saturating_sum(uint32_t a, uint32_t b) {
  return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

}  // namespace

ByteSet RegexPool::first_bytes(Regex r, uint32_t depth) {
  if (depth > kMaxEstimateDepth) return byte_range(0, 255);
  const Node& n = nodes_[r];
  if (n.kind != Kind::either && n.kind != Kind::both) return find_first_bytes(r, depth);
  if (const auto known = first_bytes_.find(r); known != first_bytes_.end()) return known->second;
  const ByteSet out = find_first_bytes(r, depth);
  first_bytes_.emplace(r, out);
  count_memory();
  return out;
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
      out = byte_range(0, 255);
      for (const Regex child : children(n)) {
        const ByteSet set = first_bytes(child, depth + 1);
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
      return byte_range(0, 255);
  }
  return out;
}

bool RegexPool::split(ClassGroups& groups, Regex r, uint32_t depth) const {
  if (depth > kMaxEstimateDepth) return false;
  for (; nodes_[r].kind == Kind::concat; r = nodes_[r].b) {
    const Regex head = nodes_[r].a;
    if (!split(groups, head, depth + 1)) return false;
    if (!nodes_[head].nullable) return true;
  }
  const Node& n = nodes_[r];
  switch (n.kind) {
    case Kind::nothing:
    case Kind::empty:
    case Kind::concat:
      return true;
    case Kind::bytes:
      split(groups, sets_[n.a]);
      return true;
    case Kind::repeat:
    case Kind::negation:
      return split(groups, n.a, depth + 1);
    case Kind::either:
    case Kind::both:
      return std::ranges::all_of(children(n), [&](Regex child) { return split(groups, child, depth + 1); });
    case Kind::number:
      for (uint8_t b = '0'; b <= '9'; b++) groups.of_class[classes_[b]] = kAlone + classes_[b];
      groups.of_class[classes_['.']] = kAlone + classes_['.'];
      return true;
  }
  RF_UNREACHABLE("a Kind outside its enum");
}

void RegexPool::split(ClassGroups& groups, const ByteSet& set) const {
  int n_bytes = 0;
  for (const uint64_t word : set) n_bytes += std::popcount(word);
  if (n_bytes == 1) {  // of a literal
    uint32_t byte = 0;
    while (!contains(set, static_cast<uint8_t>(byte))) byte++;
    groups.of_class[classes_[byte]] = kAlone + classes_[byte];
    return;
  }
  // Of a group that the set cuts in two, the classes inside become a group of their own.
  constexpr uint32_t kWhole = UINT32_MAX;
  std::array<bool, 257> has_outside{};
  std::array<uint32_t, 257> inside;
  inside.fill(kWhole);
  const uint32_t n_before = groups.n;
  for (uint32_t c = 0; c < n_classes(); c++) {
    const uint32_t group = groups.of_class[c];
    if (group < kAlone && !contains(set, representatives_[c])) has_outside[group] = true;
  }
  for (uint32_t c = 0; c < n_classes(); c++) {
    uint32_t& group = groups.of_class[c];
    if (group >= n_before || !has_outside[group] || !contains(set, representatives_[c])) continue;
    if (inside[group] == kWhole) inside[group] = groups.n++;
    group = inside[group];
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
