#include "tokenizer/wpm.h"

#include <fmt/core.h>
#include <utf8proc.h>

#include <array>

#include "base/utf8.h"
#include "tokenizer/escape.h"
#include "tokenizer/unicode.h"

namespace rocmforge::tokenizer {
namespace {

// BERT's own limit; it also bounds the time for a word.
constexpr size_t kMaxWordCharacters = 100;
constexpr size_t kMaxTrieBytes = 8u << 20;

// Each of these is a word of its own.
bool is_cjk(char32_t c) {
  struct Range {
    char32_t first, last;
  };
  constexpr Range kRanges[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
                               {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  for (const Range& range : kRanges) {
    if (c >= range.first && c <= range.last) return true;
  }
  return false;
}

// The first character of the canonical decomposition: the letter that carries the accents.
char32_t base_character(char32_t c) {
  std::array<utf8proc_int32_t, 8> parts{};  // the longest canonical decomposition has four
  int boundary = 0;
  const auto n =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(), parts.size(),
                              static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE), &boundary);
  return n < 1 ? c : static_cast<char32_t>(parts[0]);
}

}  // namespace

Result<WpmModel> WpmModel::build(const Vocabulary& v) {
  WpmModel model(v);
  std::vector<Trie::Entry> entries;
  size_t n_bytes = 0;
  for (size_t i = 0; i < v.size(); i++) {
    if (!v.is_text(static_cast<int32_t>(i)) || v.tokens[i].empty()) continue;
    entries.push_back({v.tokens[i], static_cast<int32_t>(i)});
    n_bytes += v.tokens[i].size();
  }
  if (n_bytes > kMaxTrieBytes) {
    return Error{ErrorCode::limit_exceeded,
                 fmt::format("tokenizer: WPM vocabulary: {} bytes of text, {} are allowed", n_bytes, kMaxTrieBytes)};
  }
  model.trie_ = Trie(entries);
  return model;
}

Result<void> WpmModel::Session::encode(std::string_view fragment) {
  const bool strip_accents = model_.vocabulary_->strip_accents;
  for (size_t at = 0; at < fragment.size();) {
    const Utf8Step step = decode_utf8(fragment, at);
    at += step.n_bytes;
    if (is_white_space(step.code_point)) {
      end_word();
    } else {
      add(strip_accents ? base_character(step.code_point) : step.code_point);
    }
  }
  end_word();
  return {};
}

void WpmModel::Session::add(char32_t c) {
  if (c == 0 || c == kReplacementCharacter || is_control(c)) return;
  if (model_.vocabulary_->strip_accents && is_mark(c)) return;
  const bool is_word_alone = is_punctuation(c) || (c < 0x7F && is_symbol(c)) || is_cjk(c);
  if (is_word_alone) end_word();
  if (n_characters_ == 0) word_.assign(kEscapedSpace);
  append_utf8(word_, model_.vocabulary_->lowercase ? lowercase(c) : c);
  n_characters_++;
  if (is_word_alone) end_word();
}

void WpmModel::Session::end_word() {
  const size_t out_at = out_.size();
  size_t at = 0;
  while (n_characters_ <= kMaxWordCharacters && at < word_.size()) {
    const auto match = model_.trie_.longest(word_, at);
    if (!match) break;
    out_.push_back(TokenId(match->value));
    at += match->n_bytes;
  }
  if (at < word_.size()) {
    out_.resize(out_at);
    if (const auto unknown = model_.vocabulary_->special.unk) out_.push_back(*unknown);
  }
  word_.clear();
  n_characters_ = 0;
}

}  // namespace rocmforge::tokenizer
