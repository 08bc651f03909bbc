#include "tokenizer/ugm.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/utf8.h"
#include "tokenizer/escape.h"

namespace rocmforge::tokenizer {
namespace {

constexpr int32_t kUnknown = -1;
// An unknown character costs so much more than the rarest token.
constexpr double kUnknownPenalty = 10;
constexpr double kNoWay = -std::numeric_limits<double>::infinity();
// Every place of a text is tried with tokens of up to this length; those in use are below 100 bytes.
constexpr size_t kMaxTokenBytes = 1024;
constexpr size_t kMaxTrieBytes = 8u << 20;
constexpr size_t kMaxNormalisedBytes = 1u << 30;

Error too_long(std::string_view what, size_t n, size_t allowed) {
  return {ErrorCode::limit_exceeded, fmt::format("tokenizer: UGM {}: {} bytes, {} are allowed", what, n, allowed)};
}

}  // namespace

Result<UgmModel> UgmModel::build(const Vocabulary& v) {
  UgmModel model(v);
  model.charsmap_ = TRY(Charsmap::parse(as_bytes(v.charsmap)));
  std::vector<Trie::Entry> entries;
  size_t n_bytes = 0;
  double lowest = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < v.size(); i++) {
    if (!std::isfinite(v.scores[i])) {
      return Error{ErrorCode::tokenizer_vocabulary,
                   fmt::format("tokenizer: key 'tokenizer.ggml.scores': the score of token {} is not finite", i)};
    }
    if (v.types[i] == TokenType::normal) lowest = std::min(lowest, static_cast<double>(v.scores[i]));
    if (!v.is_text(static_cast<int32_t>(i)) || v.tokens[i].empty()) continue;
    if (v.tokens[i].size() > kMaxTokenBytes) {
      return too_long(fmt::format("token {}", i), v.tokens[i].size(), kMaxTokenBytes);
    }
    entries.push_back({v.tokens[i], static_cast<int32_t>(i)});
    n_bytes += v.tokens[i].size();
  }
  if (n_bytes > kMaxTrieBytes) return too_long("vocabulary", n_bytes, kMaxTrieBytes);
  model.unknown_score_ = (std::isfinite(lowest) ? lowest : 0) - kUnknownPenalty;
  model.trie_ = Trie(entries);
  return model;
}

Result<void> UgmModel::Session::encode(std::string_view fragment) {
  text_.clear();
  is_in_word_ = has_space_ = was_unknown_ = false;
  // In parts, so that a table that makes text longer is stopped in time.
  for (size_t at = 0; at < fragment.size();) {
    if (const auto match = model_.charsmap_.longest(fragment, at)) {
      append(match->replacement);
      at += match->n_bytes;
    } else {
      const Utf8Step step = decode_utf8(fragment, at);
      append(step.valid ? fragment.substr(at, step.n_bytes) : std::string_view("\xEF\xBF\xBD"));
      at += step.valid ? step.n_bytes : 1;
    }
    if (text_.size() > kMaxNormalisedBytes) return too_long("text, normalised", text_.size(), kMaxNormalisedBytes);
  }
  if (!text_.empty()) spell();
  return {};
}

// Spaces are written as U+2581: one before the text, and runs as one, as the model wants.
void UgmModel::Session::append(std::string_view text) {
  const Vocabulary& v = *model_.vocabulary_;
  for (const char c : text) {
    if (c != ' ') {
      if (!is_in_word_ && ((v.add_space_prefix && !has_space_) || v.merges_spaces)) {
        text_.append(kEscapedSpace);
        has_space_ = true;
      }
      is_in_word_ = true;
      text_.push_back(c);
    } else {
      is_in_word_ = false;
      if (!v.merges_spaces) text_.append(kEscapedSpace);
    }
  }
}

// Where no token reaches over a place every way leads through it, and the tokens before it are decided.
void UgmModel::Session::spell() {
  const Vocabulary& v = *model_.vocabulary_;
  first_ = 0;
  best_.assign(1, {0, 0, kUnknown});
  for (size_t at = 0; at < text_.size();) {
    if (first_ + best_.size() == at + 1) take_until(at);
    const double score = best_[at - first_].score;
    const size_t n_bytes = decode_utf8(text_, at).n_bytes;
    bool is_spelled = false;
    model_.trie_.each(text_, at, [&](size_t n, int32_t token) {
      const auto i = static_cast<size_t>(token);
      const double own = v.types[i] == TokenType::user_defined ? 0 : static_cast<double>(v.scores[i]);
      reach(at + n, score + own, at, token);
      is_spelled |= n == n_bytes;
    });
    if (!is_spelled) reach(at + n_bytes, score + model_.unknown_score_, at, kUnknown);
    at += n_bytes;
  }
  take_until(text_.size());
}

void UgmModel::Session::reach(size_t end, double score, size_t begin, int32_t token) {
  if (best_.size() <= end - first_) best_.resize(end - first_ + 1, {kNoWay, 0, kUnknown});
  Best& best = best_[end - first_];
  if (score > best.score) best = {score, static_cast<uint32_t>(begin), token};
}

// Appends the tokens of the best way to `end`, and forgets the places before it.
void UgmModel::Session::take_until(size_t end) {
  taken_.clear();
  for (size_t at = end; at > first_;) {
    taken_.push_back(best_[at - first_].token);
    at = best_[at - first_].begin;
  }
  const auto unknown = model_.vocabulary_->special.unk;
  for (size_t i = taken_.size(); i-- > 0;) {
    const bool is_unknown = taken_[i] == kUnknown;
    if (!is_unknown) {
      out_.push_back(TokenId(taken_[i]));
    } else if (unknown && !was_unknown_) {
      out_.push_back(*unknown);
    }
    was_unknown_ = is_unknown;
  }
  const double score = best_[end - first_].score;
  best_.assign(1, {score, 0, kUnknown});
  first_ = end;
}

}  // namespace rocmforge::tokenizer
