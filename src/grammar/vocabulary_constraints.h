#pragma once
// The constraints of one model: its vocabulary's tries, made on first use, and the cache of compiled constraints.
//
// Threads: any.

#include <memory>
#include <mutex>
#include <span>

#include "grammar/compile.h"
#include "grammar/token_trie.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge::grammar {

class VocabularyConstraints {
 public:
  // The tokenizer must outlive this object.
  explicit VocabularyConstraints(const tokenizer::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  Result<std::shared_ptr<Constraint>> compile(const Source& source) {
    const auto make = [&]() -> Result<Compiled> {
      return Compiled{TRY(grammar::compile(source, [this](std::string_view name) { return find_token(name); }))};
    };
    return TRY(cache_.get("source " + cache_key(source), make)).constraint;
  }
  // What `make` makes; `key` distinguishes it from all others.
  Result<Compiled> compile(const std::string& key, const std::function<Result<Compiled>()>& make) {
    return cache_.get(key, make);
  }

  std::optional<int32_t> find_token(std::string_view name) const {
    const auto id = tokenizer_.find(name);
    return id ? std::optional(id->value) : std::nullopt;
  }
  std::shared_ptr<const TokenTrie> vocabulary() {
    std::call_once(once_, [&] { trie_ = TokenTrie::of(tokenizer_); });
    return trie_;
  }
  // With the texts of control tokens and `markers`, marked (TokenTrie::with_controls). REQUIRES: the same markers in
  // every call
  std::shared_ptr<const TokenTrie> vocabulary_with_controls(std::span<const TokenId> markers) {
    std::call_once(once_with_controls_, [&] { with_controls_ = TokenTrie::with_controls(tokenizer_, markers); });
    return with_controls_;
  }

 private:
  const tokenizer::Tokenizer& tokenizer_;
  ConstraintCache cache_;
  std::once_flag once_, once_with_controls_;
  std::shared_ptr<const TokenTrie> trie_, with_controls_;
};

}  // namespace rocmforge::grammar
