#pragma once
// Converts text to tokens and back, for every kind of vocabulary.
//
// Plain text never becomes a control token: "<|im_end|>" in a user's text gives the tokens of these characters, unless
// the caller sets parse_special, as for the output of a chat template.
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
#include "tokenizer/plamo2.h"
#include "tokenizer/spm.h"
#include "tokenizer/ugm.h"
#include "tokenizer/vocabulary.h"
#include "tokenizer/wpm.h"

namespace rocmforge::tokenizer {

struct EncodeOptions {
  bool parse_special = false;  // parse control tokens in the text
  // Begin with BOS if the model asks for it (Vocabulary::add_bos) and the text does not begin with it already.
  bool add_bos = false;
  // End with EOS (BERT: the separator) if the model asks for it and the text does not end with it already.
  bool add_eos = false;
};

class Tokenizer {
 public:
  static constexpr size_t kMaxTextBytes = 512u << 20;

  // Time limit on loading; beyond it the load fails.
  static constexpr std::chrono::seconds kMaxLoadTime{60};

  // Errors: those of Vocabulary::load, tokenizer_pattern, cancelled (by `control`).
  static Result<Tokenizer> load(const gguf::Metadata& metadata, const LoadControl& control = {});
  static Result<Tokenizer> build(Vocabulary vocabulary, const LoadControl& control = {});

  const Vocabulary& vocabulary() const { return *vocabulary_; }
  size_t n_tokens() const { return vocabulary_->size(); }
  bool contains(TokenId id) const { return id.value >= 0 && static_cast<size_t>(id.value) < n_tokens(); }

  // SPM keeps invalid UTF-8 as bytes; other kinds read it as U+FFFD.
  // Errors: limit_exceeded (kMaxTextBytes), tokenizer_pattern.
  Result<std::vector<TokenId>> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The bytes of the tokens: the encoded text, if the vocabulary can express it. Control tokens are left out unless
  // `show_special`. The result may be invalid UTF-8: see StreamDecoder. Errors: tokenizer_input (an unknown id).
  Result<std::string> decode(std::span<const TokenId> ids, bool show_special = false) const;

  // The bytes of one token; for a control token, its name. REQUIRES: contains(id)
  std::string_view token_text(TokenId id) const;
  // Whether decode() shows the token: it is no control, unknown or unused token. REQUIRES: contains(id)
  bool is_shown(TokenId id) const;

  // Finds the names of control tokens in a text; names of one byte are excluded.
  const PhraseFinder& control_names() const { return control_names_; }

  bool is_end_of_text(TokenId id) const;
  std::optional<TokenId> bos() const { return vocabulary_->special.bos; }
  std::optional<TokenId> eos() const { return vocabulary_->special.eos; }
  std::optional<TokenId> find(std::string_view name) const { return vocabulary_->find(name); }

 private:
  using Model = std::variant<SpmModel, BpeModel, WpmModel, UgmModel, Plamo2Model>;

  Tokenizer(std::unique_ptr<const Vocabulary> vocabulary, Model model);
  static Result<Tokenizer> finish(std::unique_ptr<const Vocabulary> vocabulary, Model model,
                                  const LoadControl& control);
  void find_special();
  void spell_tokens();
  // Finds special tokens in `text`, and encodes the text between them by `session`. `bos`, if set, is in `out` already.
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
