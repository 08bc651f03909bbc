#pragma once
// Regular expressions over bytes, hash-consed, with derivatives. Equal expressions have equal ids; intersection and
// complement are expressions too. When a limit is exceeded, the pool becomes `exhausted`: its results are then
// meaningless, and the caller must report the error.
//
// Threads: one at a time.

#include <array>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "grammar/number_leaf.h"
#include "grammar/state_memory.h"

namespace rocmforge::grammar {

using ByteSet = std::array<uint64_t, 4>;
inline bool contains(const ByteSet& set, uint8_t byte) {
  return (set[byte >> 6] >> (byte & 63) & 1) != 0;
}
ByteSet byte_range(uint8_t first, uint8_t last);
inline constexpr ByteSet kAllByteSet = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};

using Regex = uint32_t;                 // a node of the pool
inline constexpr Regex kNothing = 0;    // matches no text
inline constexpr Regex kEmptyText = 1;  // the empty text alone
inline constexpr Regex kAnyBytes = 2;   // every text, UTF-8 or not
inline constexpr uint32_t kUnbounded = UINT32_MAX;

class RegexPool {
 public:
  static constexpr size_t kMaxNodes = 400'000, kMaxChildren = 4'000'000;

  RegexPool();

  Regex bytes(const ByteSet& set);
  Regex byte(uint8_t b) { return bytes(byte_range(b, b)); }
  Regex literal(std::string_view text);
  Regex concat(Regex a, Regex b);
  Regex concat(std::initializer_list<Regex> all);
  Regex either(std::vector<Regex> all);
  Regex either(Regex a, Regex b) { return either(std::vector<Regex>{a, b}); }
  Regex both(std::vector<Regex> all);
  Regex both(Regex a, Regex b) { return both(std::vector<Regex>{a, b}); }
  Regex negate(Regex a);
  Regex repeat(Regex a, uint32_t least, uint32_t most);
  Regex star(Regex a) { return repeat(a, 0, kUnbounded); }
  Regex optional(Regex a) { return repeat(a, 0, 1); }
  // The digits of a decimal number, see number_leaf.h.
  Regex number(const NumberTest& test);

  // The repeat that an expression is or begins with. Of an unbounded one finitely many texts may be missing.
  struct Repeat {
    Regex what;
    uint32_t most;
  };
  std::optional<Repeat> leading_repeat(Regex r) const;

  bool is_nullable(Regex r) const { return nodes_[r].nullable; }
  // The expression for the texts that may follow `byte`.
  Regex derivative(Regex r, uint8_t byte);
  // The bytes that a match may begin with; others may be among them.
  const ByteSet& first_bytes(Regex r) { return first_bytes(r, 0); }
  // Removes from `same`, which has `byte`, the bytes by which the derivative of `r` may be another one.
  void keep_equal_derivatives(ByteSet& same, Regex r, uint8_t byte) const { keep_equal(same, r, byte, 0); }
  // Whether any text matches.
  bool is_alive(Regex r);
  bool matches(Regex r, std::string_view text);
  // The length of the shortest match in bytes; a lower bound for intersections and complements.
  uint32_t least_bytes(Regex r);

  // Puts bytes that no expression so far distinguishes into one class. Later expressions must not distinguish more.
  void freeze_classes();
  uint32_t n_classes() const { return static_cast<uint32_t>(representatives_.size()); }
  uint8_t class_of(uint8_t byte) const { return classes_[byte]; }
  uint8_t representative(uint32_t c) const { return representatives_[c]; }

  // After this time the pool is exhausted, and late; nothing: never.
  void set_deadline(std::optional<std::chrono::steady_clock::time_point> deadline) { deadline_ = deadline; }
  bool is_late() const { return is_late_; }

  bool is_exhausted() const { return is_exhausted_; }
  size_t n_nodes() const { return nodes_.size(); }

 private:
  enum class Kind : uint8_t { nothing, empty, bytes, concat, either, both, negation, repeat, number };
  struct Node {
    Kind kind = Kind::nothing;
    bool nullable = false;
    bool is_plain = true;   // has no intersections, complements or numbers: alive unless it is kNothing
    uint32_t a = 0, b = 0;  // operands; or a list's place and length; or a byte set; or a number's test and state
    uint32_t least = 0, most = 0;
    friend bool operator==(const Node&, const Node&) = default;
  };

  void count_memory();
  Regex intern(const Node& node, std::span<const Regex> children = {});
  std::span<const Regex> children(const Node& n) const { return {children_.data() + n.a, n.b}; }
  void add_flat(std::vector<Regex>& out, Regex r, Kind kind) const;
  Regex derive(Regex r, uint8_t byte);
  Regex derive_concat(Regex r, uint8_t byte);
  Regex derive_number(Regex r, uint8_t byte);
  Regex number_at(uint32_t test, const NumberState& state);
  const ByteSet& first_bytes(Regex r, uint32_t depth);
  void keep_equal(ByteSet& same, Regex r, uint8_t byte, uint32_t depth) const;
  ByteSet find_first_bytes(Regex r, uint32_t depth);
  bool has_match(Regex r);
  bool search_match(Regex r);
  uint32_t find_least_bytes(const Node& n, uint32_t depth);
  uint32_t least_bytes(Regex r, uint32_t depth);

  std::vector<Node> nodes_;
  std::vector<Regex> children_;
  std::vector<ByteSet> sets_;
  std::map<ByteSet, uint32_t> set_ids_;
  std::map<NumberState, uint32_t> number_state_ids_;
  std::vector<NumberTest> tests_;
  std::vector<NumberState> number_states_;
  std::vector<uint32_t> table_;  // open addressing: node ids, 0 is free
  std::unordered_map<uint64_t, Regex> derivatives_;
  std::vector<int8_t> alive_;  // 0: unknown
  std::vector<uint32_t> least_bytes_;
  std::vector<uint32_t> first_ids_;  // by node, in first_sets_; 0: unknown
  std::vector<ByteSet> first_sets_;
  std::array<uint8_t, 256> classes_{};
  std::vector<uint8_t> representatives_;
  StateMemory memory_;
  uint32_t depth_ = 0;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  uint32_t n_interned_ = 0;  // since the clock was looked at
  bool is_late_ = false;
  bool is_frozen_ = false;
  bool is_exhausted_ = false;
};

}  // namespace rocmforge::grammar
