#pragma once
// A compiled grammar, and what requests under it share: the lexer's tables and the masks that were computed.
//
// Threads: any; one at a time works on what is shared.

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "grammar/lexer.h"
#include "grammar/rules.h"
#include "grammar/token_trie.h"

namespace rocmforge::grammar {

// Masks that were computed, the least recently used leave first.
class MaskCache {
 public:
  explicit MaskCache(size_t max_bytes) : max_bytes_(max_bytes) {}
  std::shared_ptr<const TokenMask> find(uint64_t a, uint64_t b);
  void put(uint64_t a, uint64_t b, std::shared_ptr<const TokenMask> mask);

 private:
  struct Entry {
    uint64_t a, b;
    std::shared_ptr<const TokenMask> mask;
  };
  size_t max_bytes_, n_bytes_ = 0;
  std::list<Entry> entries_;  // the last used first
  std::unordered_map<uint64_t, std::list<Entry>::iterator> places_;
};

class Constraint {
 public:
  static constexpr size_t kMaxMaskBytes = 16u << 20;

  // Adds what slices need, and finishes the grammar. Errors: those of Grammar::finish().
  static Result<std::shared_ptr<Constraint>> make(std::unique_ptr<Grammar> grammar);

  const Grammar& grammar() const { return *grammar_; }

 private:
  friend class Matcher;
  explicit Constraint(std::unique_ptr<Grammar> grammar) : grammar_(std::move(grammar)), masks_(kMaxMaskBytes) {}

  std::unique_ptr<Grammar> grammar_;
  std::unique_ptr<Lexer> lexer_;
  std::vector<std::pair<uint32_t, Regex>> slices_;  // by the most characters of a slice
  std::mutex mutex_;
  MaskCache masks_;
};

}  // namespace rocmforge::grammar
