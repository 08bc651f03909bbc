#pragma once
// A compiled grammar, with the lexer's tables and the computed masks, which all its requests use.
//
// Threads: any; a mutex guards the tables and masks.

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "grammar/lexer.h"
#include "grammar/rules.h"
#include "grammar/state_memory.h"
#include "grammar/token_trie.h"

namespace rocmforge::grammar {

// What the tokens that may come next depend on, as two hashes.
struct MaskKey {
  uint64_t a = 0, b = 0;
};

struct ComputedMask {
  TokenMask mask;
  bool has_all = false;  // every token of the vocabulary
};

// Computed masks. The least recently used mask is evicted first.
class MaskCache {
 public:
  explicit MaskCache(size_t max_bytes) : max_bytes_(max_bytes) {}
  std::shared_ptr<const ComputedMask> find(const MaskKey& key);
  void put(const MaskKey& key, std::shared_ptr<const ComputedMask> mask);
  // Whether the key was noted before: a mask that is needed again is worth its computation.
  bool note(const MaskKey& key);

 private:
  static constexpr size_t kMaxNoted = 10'000;
  struct Entry {
    MaskKey key;
    std::shared_ptr<const ComputedMask> mask;
  };
  void drop_last();

  size_t max_bytes_, n_bytes_ = 0;
  StateMemory memory_;
  std::unordered_set<uint64_t> noted_;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<uint64_t, std::list<Entry>::iterator> places_;
};

class Constraint {
 public:
  static constexpr size_t kMaxMaskBytes = 16u << 20;

  // Adds the expressions of the slices (token_trie.h) and finishes the grammar. Errors: those of Grammar::finish().
  static Result<std::shared_ptr<Constraint>> make(std::unique_ptr<Grammar> grammar);

  const Grammar& grammar() const { return *grammar_; }
  // Whether its requests have made so many lexer states or expressions that it should be compiled anew for the next
  // ones: those states are never removed.
  bool is_worn();

 private:
  friend class Matcher;
  explicit Constraint(std::unique_ptr<Grammar> grammar) : grammar_(std::move(grammar)), masks_(kMaxMaskBytes) {}

  std::unique_ptr<Grammar> grammar_;
  std::unique_ptr<Lexer> lexer_;
  Regex string_char_ = kNothing;       // what the tokens of the slices consist of
  std::vector<uint32_t> class_sizes_;  // bytes of each class of the expressions
  std::mutex mutex_;
  MaskCache masks_;
  size_t n_first_nodes_ = 0;  // expressions of the grammar itself
};

}  // namespace rocmforge::grammar
