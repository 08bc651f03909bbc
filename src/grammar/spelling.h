#pragma once
// Characters as bytes: plain UTF-8, or as JSON strings spell them (raw, \n, \u000a, pairs of surrogates). Every text of
// characters has spellings of its own, so that intersection and complement of texts are those of their spellings.

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
  // Texts that do not match.
  Regex complement(Regex r) { return pool_->both(any_text(), pool_->negate(r)); }
  // Whether the text has a spelling in `r`: then all of its spellings are. REQUIRES: text is valid UTF-8
  bool matches(Regex r, std::string_view text) const;

 private:
  Regex utf8(const CharSet& set);
  Regex json(const CharSet& set);

  RegexPool* pool_;
  Form form_;
  std::map<std::vector<std::pair<char32_t, char32_t>>, Regex> known_;
};

}  // namespace rocmforge::grammar
