#pragma once
// Spells characters as bytes: plain UTF-8, or as in JSON strings (raw, \n, \u000a, surrogate pairs). Different texts
// have disjoint sets of spellings, so intersection and complement can be computed on spellings.

#include <map>
#include <string_view>
#include <vector>

#include "grammar/char_set.h"
#include "grammar/regex_pool.h"

namespace rocmforge::grammar {

class Spelling {
 public:
  enum class Form : uint8_t { utf8, json };
  // The pool must outlive this.
  Spelling(RegexPool& pool, Form form) : pool_(&pool), form_(form) {}

  RegexPool& pool() const { return *pool_; }
  // One character of the set.
  Regex one_of(const CharSet& set);
  Regex any_char() { return one_of(CharSet::all()); }
  Regex any_text() { return pool_->star(any_char()); }
  Regex any_text(uint32_t least, uint32_t most) { return pool_->repeat(any_char(), least, most); }
  // REQUIRES: text is valid UTF-8
  Regex literal(std::string_view text);
  // The texts that do not match `r`.
  Regex complement(Regex r) { return pool_->both(any_text(), pool_->negate(r)); }
  // Whether `r` has a spelling of the text; it then has all of them. REQUIRES: text is valid UTF-8
  bool matches(Regex r, std::string_view text) const;

 private:
  Regex utf8(const CharSet& set);
  Regex json(const CharSet& set);

  RegexPool* pool_;
  Form form_;
  std::map<std::vector<std::pair<char32_t, char32_t>>, Regex> known_;
};

}  // namespace rocmforge::grammar
