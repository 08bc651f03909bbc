#pragma once
// The constraints of one model's requests: its vocabulary's tries, made when the first is asked for, and what was
// compiled.
//
// Threads: any.

#include <memory>
#include <mutex>

#include "grammar/compile.h"
#include "grammar/token_trie.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge::grammar {

class VocabularyConstraints {
 public:
  // The tokenizer must outlive this.
  explicit VocabularyConstraints(const tokenizer::Tokenizer& tokenizer)
      : tokenizer_(tokenizer), cache_([&tokenizer](std::string_view name) -> std::optional<int32_t> {
          const auto id = tokenizer.find(name);
          return id ? std::optional(id->value) : std::nullopt;
        }) {}

  Result<std::shared_ptr<Constraint>> compile(const Source& source) { return cache_.get(source); }
  std::shared_ptr<const TokenTrie> vocabulary() {
    std::call_once(once_, [&] { trie_ = TokenTrie::of(tokenizer_); });
    return trie_;
  }

 private:
  const tokenizer::Tokenizer& tokenizer_;
  ConstraintCache cache_;
  std::once_flag once_;
  std::shared_ptr<const TokenTrie> trie_;
};

}  // namespace rocmforge::grammar
