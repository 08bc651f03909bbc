#include "engine/forced_tokens.h"

#include <algorithm>
#include <optional>
#include <string>

#include "tokenizer/control_marks.h"

namespace rocmforge {
namespace {

constexpr size_t kTokensBefore = 4;  // tokens that a longer one may have joined
constexpr size_t kTokensAcross = 4;  // tokens at the end that a longer one may replace

using Tokens = std::vector<TokenId>;

// The tokens of a text without control tokens, behind `before`, where `first` stands before both.
std::optional<Tokens> split(const tokenizer::Tokenizer& tokenizer, const grammar::TokenTrie& vocabulary,
                            std::string_view first, std::span<const TokenId> before, std::string_view text) {
  std::string all(first);
  for (const TokenId id : before) all += vocabulary.text(id.value);
  const auto encoded = tokenizer.encode(all + std::string(text));
  const auto begin = tokenizer.encode(first);
  if (!encoded.ok() || !begin.ok()) return {};
  Tokens expected = *begin;
  expected.insert(expected.end(), before.begin(), before.end());
  if (encoded->size() < expected.size()) return {};
  if (!std::ranges::equal(std::span(*encoded).first(expected.size()), expected)) return {};
  Tokens out(encoded->begin() + static_cast<ptrdiff_t>(expected.size()), encoded->end());
  std::string spelled;
  for (const TokenId id : out) spelled += vocabulary.text(id.value);
  if (spelled != text) return {};
  return out;
}

// The last tokens that stand behind the last control token: no token joins one of those.
std::span<const TokenId> last_of(const grammar::TokenTrie& vocabulary, std::span<const TokenId> tokens) {
  size_t n = 0;
  for (; n < std::min(tokens.size(), kTokensBefore); n++) {
    const std::string_view text = vocabulary.text(tokens[tokens.size() - 1 - n].value);
    if (text.empty() || text.find_first_of(tokenizer::kControlMarks) != std::string_view::npos) break;
  }
  return tokens.last(n);
}

void drop_tokens_that_may_be_longer(const grammar::TokenTrie& vocabulary, Tokens& tokens) {
  size_t n_dropped = 0;
  std::string end;
  for (size_t n = 1; n <= std::min(kTokensAcross, tokens.size()); n++) {
    end.insert(0, vocabulary.text(tokens[tokens.size() - n].value));
    if (vocabulary.has_longer_token(end)) n_dropped = n;
  }
  tokens.resize(tokens.size() - n_dropped);
}

}  // namespace

std::vector<TokenId> tokens_behind(const tokenizer::Tokenizer& tokenizer, const grammar::TokenTrie& vocabulary,
                                   std::span<const TokenId> before, std::string_view text) {
  Tokens out;
  Tokens context(last_of(vocabulary, before).begin(), last_of(vocabulary, before).end());
  while (!text.empty()) {
    const size_t control = text.find(tokenizer::kControlBegin);
    if (control != 0) {
      // A text that begins within a word may be split otherwise: fewer tokens may do. Some tokenizers put a blank
      // before a text: behind a line break they do not.
      std::optional<Tokens> tokens;
      for (size_t n = context.size(); !tokens; n--) {
        const auto last = std::span(context).last(n);
        tokens = split(tokenizer, vocabulary, "", last, text.substr(0, control));
        if (!tokens) tokens = split(tokenizer, vocabulary, "\n", last, text.substr(0, control));
        if (n <= 1) break;
      }
      if (!tokens) break;
      out.insert(out.end(), tokens->begin(), tokens->end());
      text.remove_prefix(std::min(control, text.size()));
      context.clear();
      continue;
    }
    const size_t end = text.find(tokenizer::kControlEnd);
    if (end == std::string_view::npos) break;  // more names begin like this one
    const auto id = tokenizer.find(text.substr(1, end - 1));
    if (!id || vocabulary.text(id->value) != text.substr(0, end + 1)) break;
    out.push_back(*id);
    text.remove_prefix(end + 1);
    context.clear();
  }
  drop_tokens_that_may_be_longer(vocabulary, out);
  return out;
}

}  // namespace rocmforge
