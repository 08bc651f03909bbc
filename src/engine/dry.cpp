#include "engine/dry.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <unordered_map>

#include "base/check.h"

namespace rocmforge {
namespace {

// For each k the length of the longest common prefix of the reversed tokens and of those from k on (the Z-function, in
// linear time): how many of the last tokens stand before the last k.
std::vector<uint32_t> repetition_lengths(std::span<const TokenId> tokens) {
  const size_t n = tokens.size();
  const auto reversed = [&](size_t i) { return tokens[n - 1 - i]; };
  std::vector<uint32_t> lengths(n, 0);
  size_t begin = 0, end = 0;  // of the match that reaches furthest
  for (size_t k = 1; k < n; k++) {
    size_t length = k < end ? std::min<size_t>(lengths[k - begin], end - k) : 0;
    while (k + length < n && reversed(length) == reversed(k + length)) length++;
    if (k + length > end) begin = k, end = k + length;
    lengths[k] = static_cast<uint32_t>(length);
  }
  return lengths;
}

}  // namespace

std::vector<DryPenalty> dry_penalties(const DryOptions& options, const History& history) {
  CHECK(history.breaks.empty() || history.breaks.size() == history.tokens.size());
  const size_t n_all = history.tokens.size();
  const size_t n = options.last_n < 0 ? n_all : std::min(n_all, static_cast<size_t>(options.last_n));
  if (options.multiplier == 0 || n < 2) return {};
  const auto breaks_at = [&](size_t back) {  // of the last tokens, counted from the end
    return !history.breaks.empty() && history.breaks[n_all - 1 - back] != 0;
  };
  uint32_t n_unbroken = 0;
  while (n_unbroken < n && !breaks_at(n_unbroken)) n_unbroken++;
  if (n_unbroken == 0) return {};

  const std::vector<uint32_t> lengths = repetition_lengths(history.tokens.last(n));
  std::unordered_map<int32_t, uint32_t> longest;  // by the token that follows
  for (size_t k = 1; k < n; k++) {
    const uint32_t length = std::min(lengths[k], n_unbroken);
    if (length == 0 || length < static_cast<uint32_t>(options.allowed_length) || breaks_at(k - 1)) continue;
    uint32_t& of_token = longest[history.tokens[n_all - k].value];
    of_token = std::max(of_token, length);
  }
  std::vector<DryPenalty> penalties;
  for (const auto& [token, length] : longest) {
    const double exponent = static_cast<double>(length) - options.allowed_length;
    const double penalty = double{options.multiplier} * std::pow(double{options.base}, exponent);
    if (token >= 0)
      penalties.push_back({static_cast<uint32_t>(token), static_cast<float>(std::min(penalty, double{FLT_MAX}))});
  }
  return penalties;
}

SequenceBreakers::SequenceBreakers(std::vector<std::string> breakers) : breakers_(std::move(breakers)) {
  std::erase(breakers_, "");
  for (const std::string& one : breakers_) longest_ = std::max(longest_, one.size());
}

bool SequenceBreakers::push(std::string_view text) {
  const size_t n_before = tail_.size();
  tail_ += text;
  const bool is_break = std::ranges::any_of(breakers_, [&](const std::string& one) {
    const size_t first = n_before + 1 > one.size() ? n_before + 1 - one.size() : 0;  // to end in the new text
    return tail_.find(one, first) != std::string::npos;
  });
  if (tail_.size() >= longest_) tail_.erase(0, tail_.size() - (longest_ > 0 ? longest_ - 1 : 0));
  return is_break;
}

}  // namespace rocmforge
