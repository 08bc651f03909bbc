#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>

#include "base/utf8.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/escape.h"
#include "tokenizer/unicode.h"

namespace rocmforge::tokenizer {

MergeTable::MergeTable(const Vocabulary& v) : slots_(std::bit_ceil(std::max<size_t>(2, 2 * v.merges.size()))) {
  for (size_t rank = 0; rank < v.merges.size(); rank++) {
    const Merge& merge = v.merges[rank];
    if (!v.is_text(merge.result)) continue;
    Slot& slot = slots_[slot_of(merge.left, merge.right)];
    if (slot.left >= 0) continue;  // the same pair again, at a worse rank
    slot = {merge.left, merge.right, {static_cast<uint32_t>(rank), merge.result}};
  }
}

size_t MergeTable::slot_of(int32_t left, int32_t right) const {
  const size_t mask = slots_.size() - 1;
  const uint64_t hash = seeded_hash(static_cast<uint32_t>(left), static_cast<uint32_t>(right), key_);
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.left < 0 || (slot.left == left && slot.right == right)) return i;
  }
}

Joined MergeTable::find(int32_t left, int32_t right) const {
  if (left < 0 || right < 0) return {};
  return slots_[slot_of(left, right)].joined;
}

Result<BpeModel> BpeModel::build(const Vocabulary& vocabulary) {
  return BpeModel(vocabulary, TRY(PreTokenizer::compile(vocabulary.rules->steps)));
}

BpeModel::BpeModel(const Vocabulary& v, PreTokenizer pre_tokenizer)
    : vocabulary_(&v), pre_tokenizer_(std::move(pre_tokenizer)), merges_(v) {
  bytes_.fill(-1);
  if (v.rules->byte_level) {
    std::string spelled;
    for (int byte = 0; byte < 256; byte++) {
      spelled.clear();
      append_utf8(spelled, spelled_byte(static_cast<uint8_t>(byte)));
      const auto id = v.find(spelled);
      if (id && v.is_text(id->value)) bytes_[static_cast<size_t>(byte)] = id->value;
    }
    return;
  }
  for (size_t i = 0; i < v.size(); i++) {
    if (v.is_text(static_cast<int32_t>(i))) joins_.add(v.tokens[i]);
  }
}

BpeModel::Session::Session(const BpeModel& model, std::string_view whole_text, std::vector<TokenId>& out)
    : model_(model),
      vocabulary_(*model.vocabulary_),
      rules_(*vocabulary_.rules),
      out_(out),
      cache_(whole_text.size(), out),
      text_(whole_text),
      parts_(model.pre_tokenizer_.n_steps()) {}

Result<void> BpeModel::Session::encode(std::string_view fragment) {
  const bool lowercases = rules_.drop_gaps && vocabulary_.lowercase;
  if (rules_.escape_spaces || lowercases) {
    const size_t begin = changed_.size();
    if (lowercases) {
      append_lowercase(changed_, fragment);
    } else {
      append_escaped(changed_, fragment);
    }
    text_ = changed_;
    fragment = text_.substr(begin);
  }
  if (!encode_steps(fragment, 0)) return *matcher_.error();
  return {};
}

// The tokens of a part that the first `step` steps have made. What they are depends on its bytes alone, so a part seen
// before at the same step is known.
bool BpeModel::Session::encode_part(std::string_view part, size_t step) {
  return cache_.tokens_of(part, text_, static_cast<uint32_t>(step), [&] {
    if (step == model_.pre_tokenizer_.n_steps()) return encode_word(part), true;
    return encode_steps(part, step);
  });
}

bool BpeModel::Session::encode_steps(std::string_view part, size_t step) {
  std::vector<PreTokenizer::Part>& smaller = parts_[step];
  smaller.clear();
  if (!model_.pre_tokenizer_.split(smaller, part, step, matcher_)) return false;
  size_t begin = 0;
  for (const PreTokenizer::Part& piece : smaller) {
    const std::string_view bytes = part.substr(begin, piece.end - begin);
    begin = piece.end;
    if (rules_.drop_gaps && !piece.is_match) continue;
    if (!encode_part(bytes, step + 1)) return false;
  }
  return true;
}

void BpeModel::Session::encode_word(std::string_view word) {
  if (is_whole_token(word)) return;
  if (rules_.byte_level) return merge_bytes(word);
  constexpr uint32_t kJoinableSalt = 255;  // no step has this number
  model_.joins_.split(word, [&](std::string_view joinable) {
    cache_.tokens_of(joinable, text_, kJoinableSalt, [&] { return merge_characters(joinable), true; });
  });
}

bool BpeModel::Session::is_whole_token(std::string_view word) {
  const bool may_be =
      rules_.ignore_merges || (rules_.whole_newline_runs && word.find_first_not_of('\n') == std::string_view::npos);
  if (!may_be) return false;
  std::string_view spelled = word;
  if (rules_.byte_level) {
    spelled_.clear();
    spell_bytes(spelled_, word);
    spelled = spelled_;
  }
  const auto id = vocabulary_.find(spelled);
  if (!id || !vocabulary_.is_text(id->value)) return false;
  out_.push_back(*id);
  return true;
}

void BpeModel::Session::merge_bytes(std::string_view word) {
  symbols_.clear();
  symbols_.reserve(word.size());
  for (size_t i = 0; i < word.size(); i++) {
    const int32_t token = model_.bytes_[static_cast<unsigned char>(word[i])];
    symbols_.push_back({.begin = static_cast<uint32_t>(i), .token = token});
  }
  merge();
  for (uint32_t i = 0; i != kNoSymbol; i = symbols_[i].next) {
    // A byte that no token spells is left out: so the model was trained.
    if (symbols_[i].token >= 0) out_.push_back(TokenId(symbols_[i].token));
  }
}

void BpeModel::Session::merge_characters(std::string_view word) {
  symbols_.clear();
  symbols_.reserve(word.size());
  for (size_t at = 0; at < word.size();) {
    const size_t n_bytes = decode_utf8(word, at).n_bytes;
    const auto id = vocabulary_.find(word.substr(at, n_bytes));
    const bool known = id && vocabulary_.is_text(id->value);
    symbols_.push_back({.begin = static_cast<uint32_t>(at), .token = known ? id->value : -1});
    at += n_bytes;
  }
  merge();
  for (uint32_t i = 0; i != kNoSymbol; i = symbols_[i].next) {
    const Symbol& symbol = symbols_[i];
    if (symbol.token >= 0) {
      out_.push_back(TokenId(symbol.token));
      continue;
    }
    const size_t end = symbol.next == kNoSymbol ? word.size() : symbols_[symbol.next].begin;
    for (const unsigned char byte : word.substr(symbol.begin, end - symbol.begin)) {
      if (vocabulary_.byte_tokens[byte] >= 0) out_.push_back(TokenId(vocabulary_.byte_tokens[byte]));
    }
  }
}

void BpeModel::Session::merge() {
  merge_symbols(symbols_, [&](uint32_t left, uint32_t right) {
    return model_.merges_.find(symbols_[left].token, symbols_[right].token);
  });
}

}  // namespace rocmforge::tokenizer
