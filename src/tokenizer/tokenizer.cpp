#include "tokenizer/tokenizer.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/utf8.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/escape.h"

namespace rocmforge::tokenizer {
namespace {

constexpr std::string_view kSpaces = " \t\n\v\f\r";

std::string_view without_leading_space(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpaces);
  return first == text.npos ? std::string_view() : text.substr(first);
}

std::string_view without_trailing_space(std::string_view text) {
  const size_t last = text.find_last_not_of(kSpaces);
  return last == text.npos ? std::string_view() : text.substr(0, last + 1);
}

bool strips(const std::vector<bool>& rule, TokenId id) {
  return !rule.empty() && rule[static_cast<size_t>(id.value)];
}

bool contains(const std::vector<TokenId>& ascending, TokenId id) {
  return std::binary_search(ascending.begin(), ascending.end(), id);
}

// The token that ends a text where the model wants one.
std::optional<TokenId> closing_token(const Vocabulary& v) {
  if (!v.add_eos) return std::nullopt;
  return v.kind == Kind::wpm ? v.special.sep : v.special.eos;
}

}  // namespace

Result<Tokenizer> Tokenizer::load(const gguf::Metadata& metadata, const LoadControl& control) {
  const LoadControl limited = control.within(kMaxLoadTime);
  return build(TRY(Vocabulary::load(metadata, limited)), limited);
}

Result<Tokenizer> Tokenizer::build(Vocabulary vocabulary, const LoadControl& control) {
  auto owned = std::make_unique<const Vocabulary>(std::move(vocabulary));
  const Vocabulary& v = *owned;
  switch (v.kind) {
    case Kind::spm:
      return finish(std::move(owned), SpmModel(v), control);
    case Kind::bpe:
      return finish(std::move(owned), TRY(BpeModel::build(v)), control);
    case Kind::wpm:
      return finish(std::move(owned), TRY(WpmModel::build(v)), control);
    case Kind::ugm:
      return finish(std::move(owned), TRY(UgmModel::build(v)), control);
    case Kind::plamo2:
      return finish(std::move(owned), TRY(Plamo2Model::build(v)), control);
  }
  RF_UNREACHABLE("a Kind outside its enum");
}

Result<Tokenizer> Tokenizer::finish(std::unique_ptr<const Vocabulary> vocabulary, Model model,
                                    const LoadControl& control) {
  TRY(control.check());
  Tokenizer tokenizer(std::move(vocabulary), std::move(model));
  tokenizer.find_special();
  TRY(control.check());
  tokenizer.spell_tokens();
  TRY(control.check());
  return tokenizer;
}

Tokenizer::Tokenizer(std::unique_ptr<const Vocabulary> vocabulary, Model model)
    : vocabulary_(std::move(vocabulary)), model_(std::move(model)) {}

void Tokenizer::find_special() {
  std::vector<PhraseFinder::Phrase> always, all, control;
  for (size_t i = 0; i < n_tokens(); i++) {
    const std::string_view text = vocabulary_->tokens[i];
    const TokenType type = vocabulary_->types[i];
    const bool is_user_defined = type == TokenType::user_defined;
    if (!is_user_defined && type != TokenType::control && type != TokenType::unknown) continue;
    // A text that is no UTF-8 could be found inside a character, and cut it.
    if (text.empty() || !is_valid_utf8(text)) continue;
    all.push_back({text, static_cast<int32_t>(i)});
    if (is_user_defined) always.push_back(all.back());
    if (type == TokenType::control && text.size() > 1) control.push_back(all.back());
  }
  user_defined_ = PhraseFinder(always);
  all_special_ = PhraseFinder(all);
  control_names_ = PhraseFinder(control);
}

void Tokenizer::spell_tokens() {
  const Vocabulary& v = *vocabulary_;
  const bool byte_level = v.kind == Kind::bpe && v.rules->byte_level;
  const bool escaped = v.kind == Kind::bpe ? v.rules->escape_spaces : v.kind != Kind::plamo2;
  spelled_ends_.reserve(v.size());
  for (size_t i = 0; i < v.size(); i++) {
    const std::string_view text = v.tokens[i];
    switch (v.types[i]) {
      case TokenType::byte:
        for (size_t byte = 0; byte < 256; byte++) {
          if (v.byte_tokens[byte] == static_cast<int32_t>(i)) spelled_.push_back(static_cast<char>(byte));
        }
        break;
      case TokenType::undefined:
      case TokenType::normal:
        if (byte_level) {
          // A token that GPT-2's spelling cannot write was added as plain text.
          spelled_.append(unspell_bytes(text).value_or(std::string(text)));
          break;
        }
        [[fallthrough]];
      case TokenType::user_defined:
        spelled_.append(escaped ? unescape_spaces(text) : std::string(text));
        break;
      case TokenType::unknown:
      case TokenType::control:
      case TokenType::unused:
        spelled_.append(text);
        break;
    }
    spelled_ends_.push_back(static_cast<uint32_t>(spelled_.size()));
  }
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > kMaxTextBytes) {
    return Error{ErrorCode::limit_exceeded, fmt::format("tokenizer: text of {} bytes: at most {} are encoded at once",
                                                        text.size(), kMaxTextBytes)};
  }
  std::string repaired;
  const bool keeps_bytes = vocabulary_->kind == Kind::spm || vocabulary_->kind == Kind::ugm;
  if (!keeps_bytes && !is_valid_utf8(text)) {
    repaired = to_valid_utf8(text);
    text = repaired;
  }

  std::vector<TokenId> out;
  out.reserve(text.size() / 4 + 2);
  const auto first = options.add_bos && vocabulary_->add_bos ? bos() : std::nullopt;
  const auto last = options.add_eos ? closing_token(*vocabulary_) : std::nullopt;
  if (first) out.push_back(*first);

  const auto run = [&](const auto& model) {
    using Session = typename std::decay_t<decltype(model)>::Session;
    return encode_fragments(out, text, options.parse_special, first, Session(model, text, out));
  };
  TRY(std::visit(run, model_));
  if (last && (out.empty() || out.back() != *last)) out.push_back(*last);
  return out;
}

template <class Session>
Result<void> Tokenizer::encode_fragments(std::vector<TokenId>& out, std::string_view text, bool parse_special,
                                         std::optional<TokenId> bos, Session session) const {
  PhraseFinder::Scan special(parse_special ? all_special_ : user_defined_, text);
  size_t begin = 0;  // of the text not yet encoded
  for (size_t at = 0; at < text.size();) {
    const auto match = special.longest_at(at);
    if (!match) {
      at++;
      continue;
    }
    const TokenId id(match->value);
    std::string_view before = text.substr(begin, at - begin);
    if (strips(vocabulary_->strips_left, id)) before = without_trailing_space(before);
    if (!before.empty()) TRY(session.encode(before));
    at += match->n_bytes;
    if (strips(vocabulary_->strips_right, id)) at = text.size() - without_leading_space(text.substr(at)).size();
    begin = at;
    const bool repeats_bos = bos && id == *bos && out.size() == 1;
    if (!repeats_bos) out.push_back(id);
  }
  if (begin < text.size()) TRY(session.encode(text.substr(begin)));
  return {};
}

Result<std::string> Tokenizer::decode(std::span<const TokenId> ids, bool show_special) const {
  std::string out;
  const Vocabulary& v = *vocabulary_;
  bool at_start = v.add_space_prefix || v.kind == Kind::wpm || (v.kind == Kind::ugm && v.merges_spaces);
  for (const TokenId id : ids) {
    if (!contains(id)) {
      return Error{ErrorCode::tokenizer_input,
                   fmt::format("tokenizer: id {}: the vocabulary has {} tokens", id.value, n_tokens())};
    }
    if (!show_special && !is_shown(id)) continue;
    std::string_view text = token_text(id);
    // The space that encoding put before the text.
    if (at_start && is_shown(id)) {
      if (text.starts_with(' ')) text.remove_prefix(1);
      at_start = false;
    }
    out.append(text);
  }
  return out;
}

std::string_view Tokenizer::token_text(TokenId id) const {
  const auto i = static_cast<size_t>(id.value);
  const size_t begin = i == 0 ? 0 : spelled_ends_[i - 1];
  return std::string_view(spelled_).substr(begin, spelled_ends_[i] - begin);
}

bool Tokenizer::is_shown(TokenId id) const {
  switch (vocabulary_->type(id)) {
    case TokenType::undefined:
    case TokenType::normal:
    case TokenType::user_defined:
    case TokenType::byte:
      return true;
    case TokenType::unknown:
    case TokenType::control:
    case TokenType::unused:
      return tokenizer::contains(vocabulary_->always_shown, id);
  }
  RF_UNREACHABLE("a TokenType outside its enum");
}

bool Tokenizer::is_end_of_text(TokenId id) const {
  return tokenizer::contains(vocabulary_->end_of_text, id);
}

}  // namespace rocmforge::tokenizer
