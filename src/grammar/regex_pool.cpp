#include "grammar/regex_pool.h"

#include <algorithm>
#include <bit>

#include "base/seeded_hash.h"

namespace rocmforge::grammar {
namespace {

constexpr uint32_t kMaxDepth = 2'000;       // of expressions inside expressions
constexpr size_t kMaxSearched = 20'000;     // expressions looked at to find one match
constexpr uint32_t kMaxEstimateDepth = 64;  // of leading_repeat
constexpr uint32_t kInternedBetweenLooks = 512;

}  // namespace

ByteSet byte_range(uint8_t first, uint8_t last) {
  ByteSet set{};
  for (unsigned b = first; b <= last; b++) set[b >> 6] |= uint64_t{1} << (b & 63);
  return set;
}

RegexPool::RegexPool() : table_(1024, 0) {
  nodes_.push_back({});
  nodes_.push_back({.kind = Kind::empty, .nullable = true});
  nodes_.push_back({.kind = Kind::negation, .nullable = true, .a = kNothing});
  alive_ = {-1, 1, 1};
  least_bytes_ = {UINT32_MAX, 0, 0};
  first_ids_ = {0, 0, 0};
  first_sets_.push_back({});
}

void RegexPool::count_memory() {
  constexpr uint64_t kMapEntryBytes = 48, kOfNode = sizeof(Node) + sizeof(int8_t) + 2 * sizeof(uint32_t);
  const uint64_t n_mapped = derivatives_.size() + number_state_ids_.size() + 2 * sets_.size();
  const uint64_t n_bytes = nodes_.size() * kOfNode + (children_.size() + table_.size()) * sizeof(Regex) +
                           first_sets_.size() * sizeof(ByteSet) + n_mapped * kMapEntryBytes;
  if (!memory_.set(n_bytes)) is_exhausted_ = true;
}

Regex RegexPool::intern(const Node& node, std::span<const Regex> parts) {
  if (deadline_ && ++n_interned_ >= kInternedBetweenLooks) {
    n_interned_ = 0;
    is_late_ |= std::chrono::steady_clock::now() > *deadline_;
    is_exhausted_ |= is_late_;
  }
  const bool is_many = node.kind == Kind::either || node.kind == Kind::both;
  uint64_t hash = seeded_hash(static_cast<uint64_t>(node.kind) << 32 | (is_many ? 0 : node.a),
                              static_cast<uint64_t>(node.least) << 32 | node.most);
  hash = seeded_hash(hash, is_many ? 0 : node.b);
  for (const Regex r : parts) hash = seeded_hash(hash, r);
  size_t at = hash & (table_.size() - 1);
  for (; table_[at] != 0; at = (at + 1) & (table_.size() - 1)) {
    const Node& n = nodes_[table_[at]];
    if (n.kind != node.kind || n.least != node.least || n.most != node.most) continue;
    if (is_many ? std::ranges::equal(children(n), parts) : n.a == node.a && n.b == node.b) return table_[at];
  }
  if (nodes_.size() >= kMaxNodes || children_.size() + parts.size() > kMaxChildren) {
    is_exhausted_ = true;
    return kNothing;
  }
  const auto id = static_cast<Regex>(nodes_.size());
  nodes_.push_back(node);
  if (is_many) {
    nodes_.back().a = static_cast<uint32_t>(children_.size());
    nodes_.back().b = static_cast<uint32_t>(parts.size());
    children_.insert(children_.end(), parts.begin(), parts.end());
  }
  alive_.push_back(node.is_plain ? 1 : 0);
  least_bytes_.push_back(UINT32_MAX);
  first_ids_.push_back(0);
  table_[at] = id;
  count_memory();
  if (nodes_.size() * 2 < table_.size()) return id;
  // Hashes are not kept: all are put into the larger table again by what they are.
  std::vector<uint32_t> old(table_.size() * 2, 0);
  old.swap(table_);
  for (const uint32_t n : old) {
    if (n == 0) continue;
    const Node& other = nodes_[n];
    const bool many = other.kind == Kind::either || other.kind == Kind::both;
    uint64_t h = seeded_hash(static_cast<uint64_t>(other.kind) << 32 | (many ? 0 : other.a),
                             static_cast<uint64_t>(other.least) << 32 | other.most);
    h = seeded_hash(h, many ? 0 : other.b);
    if (many) {
      for (const Regex r : children(other)) h = seeded_hash(h, r);
    }
    size_t place = h & (table_.size() - 1);
    while (table_[place] != 0) place = (place + 1) & (table_.size() - 1);
    table_[place] = n;
  }
  return id;
}

Regex RegexPool::bytes(const ByteSet& set) {
  if (std::ranges::all_of(set, [](uint64_t word) { return word == 0; })) return kNothing;
  auto found = set_ids_.find(set);
  if (found == set_ids_.end()) {
    found = set_ids_.emplace(set, static_cast<uint32_t>(sets_.size())).first;
    sets_.push_back(set);
  }
  return intern({.kind = Kind::bytes, .a = found->second});
}

Regex RegexPool::literal(std::string_view text) {
  Regex out = kEmptyText;
  for (size_t i = text.size(); i-- > 0;) out = concat(byte(static_cast<uint8_t>(text[i])), out);
  return out;
}

Regex RegexPool::concat(std::initializer_list<Regex> all) {
  Regex out = kEmptyText;
  for (size_t i = all.size(); i-- > 0;) out = concat(all.begin()[i], out);
  return out;
}

Regex RegexPool::concat(Regex a, Regex b) {
  if (a == kNothing || b == kNothing) return kNothing;
  if (a == kEmptyText) return b;
  if (b == kEmptyText) return a;
  if (nodes_[a].kind == Kind::concat) {
    std::vector<Regex> heads;
    for (; nodes_[a].kind == Kind::concat; a = nodes_[a].b) heads.push_back(nodes_[a].a);
    b = concat(a, b);
    for (size_t i = heads.size(); i-- > 0;) b = concat(heads[i], b);
    return b;
  }
  const Node &na = nodes_[a], &nb = nodes_[b];
  return intern({.kind = Kind::concat,
                 .nullable = na.nullable && nb.nullable,
                 .is_plain = na.is_plain && nb.is_plain,
                 .a = a,
                 .b = b});
}

void RegexPool::add_flat(std::vector<Regex>& out, Regex r, Kind kind) const {
  if (nodes_[r].kind == kind) {
    const auto parts = children(nodes_[r]);
    out.insert(out.end(), parts.begin(), parts.end());
  } else {
    out.push_back(r);
  }
}

Regex RegexPool::either(std::vector<Regex> all) {
  std::vector<Regex> flat;
  ByteSet merged{};
  bool any_nullable = false;
  for (const Regex r : all) add_flat(flat, r, Kind::either);
  std::erase_if(flat, [&](Regex r) {
    if (nodes_[r].kind != Kind::bytes) return r == kNothing;
    for (size_t i = 0; i < merged.size(); i++) merged[i] |= sets_[nodes_[r].a][i];
    return true;
  });
  if (const Regex set = bytes(merged); set != kNothing) flat.push_back(set);
  std::ranges::sort(flat);
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  if (std::ranges::find(flat, kAnyBytes) != flat.end()) return kAnyBytes;
  for (const Regex r : flat) any_nullable |= r != kEmptyText && nodes_[r].nullable;
  if (any_nullable) std::erase(flat, kEmptyText);
  if (flat.empty()) return kNothing;
  if (flat.size() == 1) return flat[0];
  Node node{.kind = Kind::either};
  for (const Regex r : flat) {
    node.nullable |= nodes_[r].nullable;
    node.is_plain &= nodes_[r].is_plain;
  }
  return intern(node, flat);
}

Regex RegexPool::both(std::vector<Regex> all) {
  std::vector<Regex> flat;
  std::optional<ByteSet> merged;
  for (const Regex r : all) add_flat(flat, r, Kind::both);
  std::erase_if(flat, [&](Regex r) {
    if (nodes_[r].kind != Kind::bytes) return r == kAnyBytes;
    const ByteSet& set = sets_[nodes_[r].a];
    if (!merged) merged = kAllByteSet;
    for (size_t i = 0; i < set.size(); i++) (*merged)[i] &= set[i];
    return true;
  });
  if (merged) flat.push_back(bytes(*merged));
  std::ranges::sort(flat);
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  if (flat.empty()) return kAnyBytes;
  if (flat.size() == 1) return flat[0];
  if (flat[0] == kNothing) return kNothing;
  Node node{.kind = Kind::both, .nullable = true, .is_plain = false};
  for (const Regex r : flat) {
    node.nullable &= nodes_[r].nullable;
    if (nodes_[r].kind == Kind::negation && std::ranges::binary_search(flat, nodes_[r].a)) return kNothing;
  }
  if (flat[0] == kEmptyText) return node.nullable ? kEmptyText : kNothing;
  return intern(node, flat);
}

Regex RegexPool::negate(Regex a) {
  if (nodes_[a].kind == Kind::negation) return nodes_[a].a;
  return intern({.kind = Kind::negation, .nullable = !nodes_[a].nullable, .is_plain = false, .a = a});
}

Regex RegexPool::repeat(Regex a, uint32_t least, uint32_t most) {
  if (most == 0 || a == kEmptyText) return kEmptyText;
  if (a == kNothing) return least == 0 ? kEmptyText : kNothing;
  if (least == 1 && most == 1) return a;
  const Node& n = nodes_[a];
  if (n.nullable) least = 0;
  if (n.kind == Kind::repeat && n.least == 0 && n.most == kUnbounded) return a;
  return intern(
      {.kind = Kind::repeat, .nullable = least == 0, .is_plain = n.is_plain, .a = a, .least = least, .most = most});
}

// An unbounded repeat without finitely many texts goes on behind all that it begins with, as the repeat itself does.
std::optional<RegexPool::Repeat> RegexPool::leading_repeat(Regex r) const {
  const Node& n = nodes_[nodes_[r].kind == Kind::concat ? nodes_[r].a : r];
  if (n.kind == Kind::repeat) return Repeat{n.a, n.most};
  if (n.kind != Kind::both) return {};
  const auto is_finite = [&](const auto& self, Regex one, uint32_t depth) -> bool {
    const Node& node = nodes_[one];
    if (depth > kMaxEstimateDepth) return false;
    switch (node.kind) {
      case Kind::nothing:
      case Kind::empty:
      case Kind::bytes:
        return true;
      case Kind::concat: {
        // Literals are long lists.
        Regex rest = one;
        for (; nodes_[rest].kind == Kind::concat; rest = nodes_[rest].b) {
          if (!self(self, nodes_[rest].a, depth + 1)) return false;
        }
        return self(self, rest, depth + 1);
      }
      case Kind::either:
        return std::ranges::all_of(children(node), [&](Regex child) { return self(self, child, depth + 1); });
      case Kind::repeat:
        return node.most != kUnbounded && self(self, node.a, depth + 1);
      default:
        return false;
    }
  };
  std::optional<Repeat> found;
  for (const Regex child : children(n)) {
    const Node& node = nodes_[child];
    if (node.kind == Kind::repeat && node.most == kUnbounded && !found) {
      found = Repeat{node.a, kUnbounded};
    } else if (node.kind != Kind::negation || !is_finite(is_finite, node.a, 0)) {
      return {};
    }
  }
  return found;
}

Regex RegexPool::number(const NumberTest& test) {
  const auto at = std::ranges::find(tests_, test);
  const auto id = static_cast<uint32_t>(at - tests_.begin());
  if (at == tests_.end()) {
    if (!is_frozen_ && tests_.empty()) {  // derivatives by digits and the point
      for (uint8_t b = '0'; b <= '9'; b++) byte(b);
      byte('.');
    }
    tests_.push_back(test);
  }
  return number_at(id, {});
}

Regex RegexPool::number_at(uint32_t test, const NumberState& state) {
  const auto [at, is_new] = number_state_ids_.emplace(state, static_cast<uint32_t>(number_states_.size()));
  if (is_new) number_states_.push_back(state);
  return intern(
      {.kind = Kind::number, .nullable = is_met(tests_[test], state), .is_plain = false, .a = test, .b = at->second});
}

Regex RegexPool::derivative(Regex r, uint8_t byte) {
  if (r <= kEmptyText) return kNothing;
  if (r == kAnyBytes) return kAnyBytes;
  const Node& n = nodes_[r];
  if (n.kind == Kind::bytes) return contains(sets_[n.a], byte) ? kEmptyText : kNothing;
  if (n.kind == Kind::concat && nodes_[n.a].kind == Kind::bytes) {
    return contains(sets_[nodes_[n.a].a], byte) ? n.b : kNothing;
  }
  if (first_ids_[r] != 0 && !contains(first_sets_[first_ids_[r]], byte)) return kNothing;
  const uint64_t key = static_cast<uint64_t>(r) << 8 | (is_frozen_ ? classes_[byte] : byte);
  if (const auto found = derivatives_.find(key); found != derivatives_.end()) return found->second;
  if (depth_ >= kMaxDepth) {
    is_exhausted_ = true;
    return kNothing;
  }
  depth_++;
  const Regex out = derive(r, byte);
  depth_--;
  if (!is_exhausted_) derivatives_.emplace(key, out);
  count_memory();
  return out;
}

Regex RegexPool::derive(Regex r, uint8_t byte) {
  const Node n = nodes_[r];
  switch (n.kind) {
    case Kind::concat:
      return derive_concat(r, byte);
    case Kind::repeat: {
      const uint32_t most = n.most == kUnbounded ? kUnbounded : n.most - 1;
      return concat(derivative(n.a, byte), repeat(n.a, n.least == 0 ? 0 : n.least - 1, most));
    }
    case Kind::negation:
      return negate(derivative(n.a, byte));
    case Kind::number:
      return derive_number(r, byte);
    case Kind::either:
    case Kind::both: {
      std::vector<Regex> parts;
      for (uint32_t i = 0; i < n.b; i++) {
        parts.push_back(derivative(children_[n.a + i], byte));
        if (n.kind == Kind::both && parts.back() == kNothing) return kNothing;
      }
      return n.kind == Kind::either ? either(std::move(parts)) : both(std::move(parts));
    }
    default:
      return kNothing;
  }
}

// Along the heads that may be empty, without recursion: such chains can be long.
Regex RegexPool::derive_concat(Regex r, uint8_t byte) {
  std::vector<Regex> parts;
  while (nodes_[r].kind == Kind::concat) {
    const Regex head = nodes_[r].a, rest = nodes_[r].b;
    parts.push_back(concat(derivative(head, byte), rest));
    if (!nodes_[head].nullable) return either(std::move(parts));
    r = rest;
  }
  parts.push_back(derivative(r, byte));
  return either(std::move(parts));
}

Regex RegexPool::derive_number(Regex r, uint8_t byte) {
  const uint32_t test = nodes_[r].a;
  const auto next = next_state(tests_[test], number_states_[nodes_[r].b], byte);
  return next ? number_at(test, *next) : kNothing;
}

bool RegexPool::is_alive(Regex r) {
  // Of a chain all parts must have a match; without recursion: chains can be long.
  bool is = true;
  Regex rest = r;
  for (; is && alive_[rest] == 0 && nodes_[rest].kind == Kind::concat; rest = nodes_[rest].b) {
    is = has_match(nodes_[rest].a);
  }
  is = is && has_match(rest);
  if (is_exhausted_) return is;
  for (; r != rest; r = nodes_[r].b) alive_[r] = is ? 1 : -1;
  return is;
}

// REQUIRES: `r` is no chain, or it is known whether it has a match
bool RegexPool::has_match(Regex r) {
  if (alive_[r] != 0) return alive_[r] > 0;
  // Without finitely many of its texts an unbounded repeat still has others.
  const auto repeat = nodes_[r].kind == Kind::both ? leading_repeat(r) : std::nullopt;
  if (!repeat || repeat->most != kUnbounded || !nodes_[repeat->what].is_plain) return search_match(r);
  alive_[r] = 1;
  return true;
}

bool RegexPool::search_match(Regex r) {
  struct Seen {
    Regex regex;
    uint32_t parent;
  };
  std::vector<Seen> seen = {{r, 0}};
  std::unordered_map<Regex, bool> known = {{r, true}};
  const auto mark_path = [&](size_t i) {
    while (true) {
      alive_[seen[i].regex] = 1;
      if (i == 0) return true;
      i = seen[i].parent;
    }
  };
  for (size_t i = 0; i < seen.size(); i++) {
    if (nodes_[seen[i].regex].nullable) return mark_path(i);
    ByteSet left = first_bytes(seen[i].regex);
    for (unsigned b = 0; b < 256; b++) {
      const auto byte = static_cast<uint8_t>(b);
      if (!contains(left, byte)) continue;
      const Regex next = derivative(seen[i].regex, byte);
      ByteSet same = kAllByteSet;
      keep_equal_derivatives(same, seen[i].regex, byte);
      for (size_t w = 0; w < left.size(); w++) left[w] &= ~same[w];
      if (is_exhausted_ || seen.size() > kMaxSearched) {
        is_exhausted_ = true;
        return false;
      }
      if (alive_[next] > 0) return mark_path(i);
      if (alive_[next] == 0 && known.emplace(next, true).second) seen.push_back({next, static_cast<uint32_t>(i)});
    }
  }
  for (const Seen& s : seen) alive_[s.regex] = -1;
  return false;
}

bool RegexPool::matches(Regex r, std::string_view text) {
  for (const char c : text) {
    r = derivative(r, static_cast<uint8_t>(c));
    if (r == kNothing) return false;
  }
  return nodes_[r].nullable;
}

void RegexPool::freeze_classes() {
  if (is_frozen_) return;
  classes_.fill(0);
  uint32_t n = 1;
  for (const ByteSet& set : sets_) {
    std::array<int, 256> split;
    split.fill(-1);
    // Of a class that the set cuts in two, those inside get a new number.
    std::array<bool, 256> has_outside{};
    for (unsigned b = 0; b < 256; b++) has_outside[classes_[b]] |= !contains(set, static_cast<uint8_t>(b));
    for (unsigned b = 0; b < 256; b++) {
      const uint8_t c = classes_[b];
      if (!contains(set, static_cast<uint8_t>(b)) || !has_outside[c]) continue;
      if (split[c] < 0) split[c] = static_cast<int>(n++);
      classes_[b] = static_cast<uint8_t>(split[c]);
    }
  }
  representatives_.assign(n, 0);
  for (unsigned b = 256; b-- > 0;) representatives_[classes_[b]] = static_cast<uint8_t>(b);
  derivatives_.clear();
  is_frozen_ = true;
}

}  // namespace rocmforge::grammar
