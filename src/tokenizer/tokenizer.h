#pragma once
// Text to tokens and back, for every kind of vocabulary.
//
// Plain text never becomes a control token: a user who writes "<|im_end|>" gets the tokens of those characters, unless
// the caller asks for special tokens to be parsed, as it does for what a chat template wrote.
//
// Threads: immutable; any number may encode and decode at once.

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/load_control.h"
#include "base/result.h"
#include "gguf/metadata.h"
#include "tokenizer/bpe.h"
#include "tokenizer/phrase_finder.h"
#include "tokenizer/spm.h"
#include "tokenizer/vocabulary.h"
#include "tokenizer/wpm.h"

namespace rocmforge::tokenizer {

struct EncodeOptions {
  bool parse_special = false;  // find control tokens in the text, too
  // Begin with BOS if the model wants one (Vocabulary::add_bos) and the text does not itself begin with it.
  bool add_bos = false;
  // End with EOS (BERT: the separator) if the model wants one and the text does not itself end with it.
  bool add_eos = false;
};

class Tokenizer {
 public:
  static constexpr size_t kMaxTextBytes = 512u << 20;

  // Loading takes at most this long, or is refused.
  static constexpr std::chrono::seconds kMaxLoadTime{60};

  // Errors: those of Vocabulary::load, tokenizer_pattern, and cancelled when `control` says so.
  static Result<Tokenizer> load(const gguf::Metadata& metadata, const LoadControl& control = {});
  static Result<Tokenizer> build(Vocabulary vocabulary, const LoadControl& control = {});

  const Vocabulary& vocabulary() const { return *vocabulary_; }
  size_t n_tokens() const { return vocabulary_->size(); }
  bool contains(TokenId id) const { return id.value >= 0 && static_cast<size_t>(id.value) < n_tokens(); }

  // Invalid UTF-8 is kept as bytes by SPM and read as U+FFFD by the others.
  // Errors: limit_exceeded (kMaxTextBytes), tokenizer_pattern.
  Result<std::vector<TokenId>> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The bytes that the tokens stand for: the text they were encoded from, wherever the vocabulary can express it.
  // Control tokens are left out unless asked for. Not always valid UTF-8: see StreamDecoder. Errors: tokenizer_input
  // (no such id).
  Result<std::string> decode(std::span<const TokenId> ids, bool show_special = false) const;

  // The bytes one token stands for; of a control token, its name. REQUIRES: contains(id)
  std::string_view token_text(TokenId id) const;
  // Whether the token is part of the text: no control, unknown or unused token. REQUIRES: contains(id)
  bool is_shown(TokenId id) const;

  // Finds the control tokens' names, but those of one byte.
  const PhraseFinder& control_names() const { return control_names_; }

  bool is_end_of_text(TokenId id) const;
  std::optional<TokenId> bos() const { return vocabulary_->special.bos; }
  std::optional<TokenId> eos() const { return vocabulary_->special.eos; }
  std::optional<TokenId> find(std::string_view name) const { return vocabulary_->find(name); }

 private:
  using Model = std::variant<SpmModel, BpeModel, WpmModel>;

  Tokenizer(std::unique_ptr<const Vocabulary> vocabulary, Model model);
  static Result<Tokenizer> finish(std::unique_ptr<const Vocabulary> vocabulary, Model model,
                                  const LoadControl& control);
  void find_special();
  void spell_tokens();
  // Finds special tokens in `text`; what lies between them goes through `session`. `bos` stands in `out` if it is set.
  template <class Session>
  Result<void> encode_fragments(std::vector<TokenId>& out, std::string_view text, bool parse_special,
                                std::optional<TokenId> bos, Session session) const;

  std::unique_ptr<const Vocabulary> vocabulary_;
  Model model_;
  PhraseFinder user_defined_;  // found in every text
  PhraseFinder all_special_;   // found when special tokens are parsed
  PhraseFinder control_names_;
  std::string spelled_;
  std::vector<uint32_t> spelled_ends_;
};

}  // namespace rocmforge::tokenizer
