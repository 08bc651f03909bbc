#include "tokenizer/plamo2.h"

#include <fmt/core.h>

#include <cmath>
#include <limits>

#include "base/utf8.h"

namespace rocmforge::tokenizer {
namespace {

constexpr int32_t kUnknown = -1;
// Sums of scores are compared exactly: scores are rounded to this unit, as the model was trained with.
constexpr double kScoreUnit = 1e-4;
constexpr int64_t kUnknownCost = 10'000'000;
constexpr double kMaxScore = 1e6;
// Every place of a text is tried with tokens of up to this length; those in use are below 100 bytes.
constexpr size_t kMaxTokenBytes = 1024;
constexpr size_t kMaxTrieBytes = 16u << 20;

Error too_long(std::string_view what, size_t n, size_t allowed) {
  return {ErrorCode::limit_exceeded, fmt::format("tokenizer: PLaMo 2 {}: {} bytes, {} are allowed", what, n, allowed)};
}

}  // namespace

Result<Plamo2Model> Plamo2Model::build(const Vocabulary& v) {
  Plamo2Model model(v);
  std::vector<Trie::Entry> entries;
  size_t n_bytes = 0;
  model.scores_.resize(v.size());
  for (size_t i = 0; i < v.size(); i++) {
    const auto score = static_cast<double>(v.scores[i]);
    // A score that is not finite says that no text becomes this token.
    if (!v.is_text(static_cast<int32_t>(i)) || v.tokens[i].empty() || !std::isfinite(score)) continue;
    if (std::abs(score) > kMaxScore) {
      return Error{
          ErrorCode::tokenizer_vocabulary,
          fmt::format("tokenizer: key 'tokenizer.ggml.scores': {} of token {} is beyond +-{}", score, i, kMaxScore)};
    }
    if (v.tokens[i].size() > kMaxTokenBytes) {
      return too_long(fmt::format("token {}", i), v.tokens[i].size(), kMaxTokenBytes);
    }
    model.scores_[i] = std::llround(score / kScoreUnit);
    entries.push_back({v.tokens[i], static_cast<int32_t>(i)});
    n_bytes += v.tokens[i].size();
  }
  if (n_bytes > kMaxTrieBytes) return too_long("vocabulary", n_bytes, kMaxTrieBytes);
  model.trie_ = Trie(entries);
  return model;
}

// Of ways that cost the same, the one whose first token is longest.
Result<void> Plamo2Model::Session::encode(std::string_view text) {
  constexpr int64_t kNoWay = std::numeric_limits<int64_t>::max();
  const Vocabulary& v = *model_.vocabulary_;
  best_.assign(text.size() + 1, {kNoWay, 0, kUnknown});
  best_.back().cost = 0;
  for (size_t at = text.size(); at-- > 0;) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) continue;  // inside a character
    const size_t n_bytes = decode_utf8(text, at).n_bytes;
    Best& best = best_[at];
    best = {best_[at + n_bytes].cost + kUnknownCost, static_cast<uint32_t>(n_bytes), kUnknown};
    if (model_.trie_.empty()) continue;
    model_.trie_.each(text, at, [&](size_t n, int32_t token) {
      if (best_[at + n].cost == kNoWay) return;  // the token ends inside a character
      const int64_t cost = best_[at + n].cost - model_.scores_[static_cast<size_t>(token)];
      const bool is_better = best.token == kUnknown ? cost < best.cost : cost <= best.cost;
      if (is_better) best = {cost, static_cast<uint32_t>(n), token};
    });
  }
  for (size_t at = 0; at < text.size(); at += best_[at].n_bytes) {
    const Best& best = best_[at];
    if (best.token != kUnknown) {
      out_.push_back(TokenId(best.token));
      continue;
    }
    bool has_all = true;
    for (size_t i = at; i < at + best.n_bytes; i++) has_all &= v.byte_tokens[static_cast<unsigned char>(text[i])] >= 0;
    if (!has_all && v.special.unk) out_.push_back(*v.special.unk);
    for (size_t i = at; has_all && i < at + best.n_bytes; i++) {
      out_.push_back(TokenId(v.byte_tokens[static_cast<unsigned char>(text[i])]));
    }
  }
  return {};
}

}  // namespace rocmforge::tokenizer
