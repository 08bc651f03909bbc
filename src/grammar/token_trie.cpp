#include "grammar/token_trie.h"

#include <algorithm>
#include <bit>

#include "base/utf8.h"
#include "tokenizer/control_marks.h"

namespace rocmforge::grammar {
namespace {

constexpr uint32_t kSliceChars[] = {10, 30};

// The characters that a text begins with and that may stand in a JSON string as they are.
struct StringChars {
  uint32_t n = 0;
  size_t n_bytes = 0;
};
StringChars string_chars(std::string_view text) {
  StringChars out;
  while (out.n_bytes < text.size()) {
    const Utf8Step step = decode_utf8(text, out.n_bytes);
    if (!step.valid || step.code_point < 0x20 || step.code_point == '"' || step.code_point == '\\') break;
    out.n_bytes += step.n_bytes;
    out.n++;
  }
  return out;
}

// Characters of a text that may stand in a JSON string as it is; 0 when it may not.
uint32_t n_string_chars(std::string_view text) {
  const StringChars chars = string_chars(text);
  return chars.n_bytes == text.size() ? chars.n : 0;
}

TokenTrie::Nodes nodes_of(std::span<const std::pair<std::string_view, int32_t>> sorted) {
  TokenTrie::Nodes out;
  std::vector<TokenTrie::Node>& nodes = out.all;
  std::vector<uint32_t> path;  // the nodes of the last text
  std::string_view last;
  const auto close = [&](size_t depth) {
    while (path.size() > depth) {
      nodes[path.back()].n_below = static_cast<uint32_t>(nodes.size()) - path.back() - 1;
      path.pop_back();
    }
  };
  for (const auto& [text, token] : sorted) {
    size_t common = 0;
    while (common < last.size() && common < text.size() && last[common] == text[common]) common++;
    close(common);
    for (size_t i = common; i < text.size(); i++) {
      path.push_back(static_cast<uint32_t>(nodes.size()));
      nodes.push_back({.byte = static_cast<uint8_t>(text[i]), .depth = static_cast<uint8_t>(i + 1)});
    }
    nodes[path.back()].token = token;
    last = text;
  }
  close(0);
  out.first.fill(static_cast<uint32_t>(nodes.size()));
  for (uint32_t root = 0; root < nodes.size(); root += nodes[root].n_below + 1) out.first[nodes[root].byte] = root;
  for (size_t byte = 256; byte-- > 0;) out.first[byte] = std::min(out.first[byte], out.first[byte + 1]);
  return out;
}

std::vector<int32_t> ends_of(const tokenizer::Tokenizer& tokenizer) {
  std::vector<int32_t> out;
  for (const TokenId id : tokenizer.vocabulary().end_of_text) out.push_back(id.value);
  return out;
}

}  // namespace

size_t TokenMask::count(size_t n) const {
  size_t out = 0;
  for (size_t w = 0; w < words_.size() && w * 64 < n; w++) {
    const size_t n_left = n - w * 64;
    const uint64_t counted = n_left < 64 ? (uint64_t{1} << n_left) - 1 : ~uint64_t{0};
    out += static_cast<size_t>(std::popcount(words_[w] & counted));
  }
  return out;
}

bool TokenMask::is_full() const {
  const size_t n_whole = n_tokens_ / 64, n_rest = n_tokens_ % 64;
  for (size_t w = 0; w < n_whole; w++) {
    if (words_[w] != ~uint64_t{0}) return false;
  }
  return n_rest == 0 || words_[n_whole] == (uint64_t{1} << n_rest) - 1;
}

std::vector<int32_t> TokenMask::ids() const {
  std::vector<int32_t> out;
  for (size_t w = 0; w < words_.size(); w++) {
    for (uint64_t left = words_[w]; left != 0; left &= left - 1) {
      out.push_back(static_cast<int32_t>(w * 64 + static_cast<size_t>(std::countr_zero(left))));
    }
  }
  return out;
}

TokenTrie::TokenTrie(size_t n_tokens, const std::function<std::string_view(int32_t)>& text,
                     std::vector<int32_t> end_of_text)
    : n_tokens_(n_tokens), end_of_text_(std::move(end_of_text)) {
  std::ranges::sort(end_of_text_);
  for (size_t i = 0; i < n_tokens; i++) {
    const std::string_view bytes = text(static_cast<int32_t>(i));
    if (bytes.size() <= kMaxTokenBytes && !is_end_of_text(static_cast<int32_t>(i))) texts_ += bytes;
    ends_.push_back(static_cast<uint32_t>(texts_.size()));
  }
  std::vector<std::pair<std::string_view, int32_t>> sorted[std::size(kSliceChars) + 1];
  for (size_t i = 0; i < n_tokens; i++) {
    const std::string_view bytes = this->text(static_cast<int32_t>(i));
    if (bytes.empty()) continue;
    const uint32_t n_chars = n_string_chars(bytes);
    size_t slice = std::size(kSliceChars);
    for (size_t s = 0; s < std::size(kSliceChars) && n_chars > 0; s++) {
      if (n_chars <= kSliceChars[s]) {
        slice = s;
        break;
      }
    }
    sorted[slice].emplace_back(bytes, static_cast<int32_t>(i));
  }
  for (size_t s = 0; s <= std::size(kSliceChars); s++) {
    std::ranges::sort(sorted[s]);
    std::vector<std::pair<std::string_view, int32_t>> unique;
    for (const auto& one : sorted[s]) {
      if (!unique.empty() && unique.back().first == one.first) {
        duplicates_.emplace_back(unique.back().second, one.second);
      } else {
        unique.push_back(one);
      }
    }
    slices_.push_back({s < std::size(kSliceChars) ? kSliceChars[s] : 0, nodes_of(unique), TokenMask(n_tokens)});
    for (const auto& [bytes, token] : unique) slices_.back().tokens.add(token);
  }
  add_string_ends();
}

void TokenTrie::add_string_ends() {
  string_ends_.whole = TokenMask(n_tokens_);
  std::vector<std::pair<std::string_view, int32_t>> ends, unique;
  for (int32_t id = 0; static_cast<size_t>(id) < n_tokens_; id++) {
    const std::string_view bytes = text(id), end = bytes.substr(string_chars(bytes).n_bytes);
    if (bytes.empty()) continue;
    end.empty() ? string_ends_.whole.add(id) : static_cast<void>(ends.emplace_back(end, id));
  }
  std::ranges::sort(ends);
  for (const auto& [end, id] : ends) {
    if (unique.empty() || unique.back().first != end) {
      unique.emplace_back(end, static_cast<int32_t>(unique.size()));
      string_ends_.first_token.push_back(static_cast<uint32_t>(string_ends_.tokens.size()));
    }
    string_ends_.tokens.push_back(id);
  }
  string_ends_.first_token.push_back(static_cast<uint32_t>(string_ends_.tokens.size()));
  string_ends_.nodes = nodes_of(unique);
}

std::shared_ptr<const TokenTrie> TokenTrie::of(const tokenizer::Tokenizer& tokenizer) {
  const auto text = [&](int32_t id) {
    return tokenizer.is_shown(TokenId(id)) ? tokenizer.token_text(TokenId(id)) : std::string_view();
  };
  return std::make_shared<const TokenTrie>(tokenizer.n_tokens(), text, ends_of(tokenizer));
}

std::shared_ptr<const TokenTrie> TokenTrie::with_controls(const tokenizer::Tokenizer& tokenizer,
                                                          std::span<const TokenId> markers) {
  std::string marked;
  const auto text = [&](int32_t id) -> std::string_view {
    const std::string_view bytes = tokenizer.token_text(TokenId(id));
    const bool is_marker = std::ranges::binary_search(markers, id, {}, &TokenId::value);
    // Bytes outside of UTF-8 that look like marks are part of no text.
    const bool has_marks = bytes.find_first_of(tokenizer::kControlMarks) != std::string_view::npos;
    if (has_marks || bytes.empty()) return {};
    if (!is_marker && tokenizer.is_shown(TokenId(id))) return bytes;
    marked = tokenizer::kControlBegin + std::string(bytes) + tokenizer::kControlEnd;
    return marked;
  };
  return std::make_shared<const TokenTrie>(tokenizer.n_tokens(), text, ends_of(tokenizer));
}

std::string_view TokenTrie::text(int32_t token) const {
  if (token < 0 || static_cast<size_t>(token) >= n_tokens_) return {};
  const uint32_t begin = token == 0 ? 0 : ends_[static_cast<size_t>(token) - 1];
  return std::string_view(texts_).substr(begin, ends_[static_cast<size_t>(token)] - begin);
}

bool TokenTrie::is_end_of_text(int32_t token) const {
  return std::ranges::binary_search(end_of_text_, token);
}

bool TokenTrie::is_string_safe(int32_t token) const {
  const uint32_t n_chars = n_string_chars(text(token));
  return n_chars > 0 && n_chars <= kSliceChars[std::size(kSliceChars) - 1];
}

bool TokenTrie::has_longer_token(std::string_view begin) const {
  const auto is_in = [&](const Slice& slice) {
    const std::span<const Node> nodes = slice.nodes.all;
    size_t at = 0, end = nodes.size();
    for (size_t depth = 0; depth < begin.size(); depth++) {
      while (at < end && nodes[at].byte != static_cast<uint8_t>(begin[depth])) at += nodes[at].n_below + 1;
      if (at >= end) return false;
      end = at + nodes[at].n_below + 1;
      at++;
    }
    return at < end;
  };
  return std::ranges::any_of(slices_, is_in);
}

}  // namespace rocmforge::grammar
