// The masks of a matcher: walks over the tries of the vocabulary.

#include <array>

#include "base/seeded_hash.h"
#include "grammar/matcher.h"

namespace rocmforge::grammar {

MaskKey Matcher::mask_key(const Frame& frame) const {
  const bool wants_tokens = frame.here != kNoColumn && parser_->wants_tokens(frame.here);
  MaskKey key{seeded_hash(reinterpret_cast<uintptr_t>(vocabulary_.get()), frame.is_end),
              wants_tokens ? parser_->fingerprint(frame.here) : 0};
  for (uint32_t i = 0; i < frame.n_runs; i++) {
    const Run& run = runs_[frame.first_run + i];
    key.a = seeded_hash(key.a ^ parser_->fingerprint(run.column), run.lex);
    key.b = seeded_hash(key.b ^ run.lex, parser_->fingerprint(run.column));
  }
  return key;
}

Result<const ComputedMask*> Matcher::known_mask() {
  if (mask_ || is_mask_sought_) return mask_.get();
  is_mask_sought_ = true;
  const MaskKey key = mask_key(frames_.back());
  mask_ = constraint_->masks_.find(key);
  if (!mask_ && constraint_->masks_.note(key)) TRY(compute_mask(key));
  return mask_.get();
}

Result<void> Matcher::compute_mask(const MaskKey& key) {
  const Frame top = frames_.back();
  const bool wants_tokens = top.here != kNoColumn && parser_->wants_tokens(top.here);
  const Parser::Mark mark = parser_->mark();
  auto computed = std::make_shared<ComputedMask>();
  TokenMask& mask = computed->mask;
  if (top.n_runs != 1 || !TRY(walk_string(top, mask))) {
    mask = TokenMask(vocabulary_->n_tokens());
    for (const TokenTrie::Slice& slice : vocabulary_->slices()) walk_slice(slice, top, mask);
  }
  for (const auto& [first, other] : vocabulary_->duplicates()) {
    mask.contains(first) ? mask.add(other) : mask.remove(other);
  }
  if (wants_tokens) {
    for (int32_t id = 0; static_cast<size_t>(id) < vocabulary_->n_tokens(); id++) {
      if (parser_->allows_token(top.here, id)) mask.add(id);
    }
  }
  for (const int32_t id : vocabulary_->end_of_text()) {
    if (top.is_end) mask.add(id);
  }
  parser_->truncate(mark);
  TRY(check());
  computed->has_all = mask.is_full();
  constraint_->masks_.put(key, computed);
  mask_ = std::move(computed);
  return {};
}

void Matcher::walk_slice(const TokenTrie::Slice& slice, const Frame& top, TokenMask& mask) {
  bool is_whole = false;
  for (uint32_t i = 0; i < top.n_runs && !is_whole && slice.max_chars > 0; i++) {
    const LexState lex = runs_[top.first_run + i].lex;
    is_whole = constraint_->lexer_->admits(lex, constraint_->string_char_, slice.max_chars);
  }
  if (is_whole) {
    mask.add_all(slice.tokens);
  } else if (top.n_runs == 1) {
    walk_all_terminals(slice.nodes, runs_[top.first_run], mask);
  } else {
    walk_frames(slice.nodes.all, top, mask);
  }
}

void Matcher::walk_all_terminals(const TokenTrie::Nodes& nodes, Run run, TokenMask& mask) {
  for (uint32_t byte = 0; byte < 256; byte++) {
    const auto first = static_cast<uint8_t>(byte);
    if (constraint_->lexer_->next(run.lex, first) != kNoLex) walk_terminals(nodes.of_byte(first), run, mask);
  }
}

// Inside of a string most characters lead to one state, where any character leads to it again. Its mask needs a walk
// over the ends of tokens alone; where the state of this place differs, as at the beginning of a key, so may the mask.
Result<bool> Matcher::walk_string(const Frame& top, TokenMask& mask) {
  constexpr uint8_t kRareChar = 0x7f;
  Lexer& lexer = *constraint_->lexer_;
  const Run run = runs_[top.first_run];
  const Run rest{run.column, lexer.next(run.lex, kRareChar)};
  if (rest.lex == kNoLex || !lexer.is_closed_under(rest.lex, constraint_->string_char_)) return false;
  if (rest.lex == run.lex) {
    mask = walk_ends(run);
    return true;
  }
  const size_t n_runs = runs_.size();
  runs_.push_back(rest);
  const MaskKey key = mask_key({.first_run = static_cast<uint32_t>(n_runs), .n_runs = 1});
  runs_.resize(n_runs);
  auto known = constraint_->masks_.find(key);
  if (!known) {
    auto computed = std::make_shared<ComputedMask>(ComputedMask{walk_ends(rest)});
    for (const auto& [first, other] : vocabulary_->duplicates()) {
      if (computed->mask.contains(first)) computed->mask.add(other);
    }
    TRY(check());
    computed->has_all = computed->mask.is_full();
    constraint_->masks_.put(key, computed);
    known = std::move(computed);
  }
  mask = known->mask;
  for (uint32_t byte = 0; byte < 256; byte++) {
    const auto first = static_cast<uint8_t>(byte);
    if (lexer.next(run.lex, first) == lexer.next(rest.lex, first)) continue;
    for (const TokenTrie::Slice& slice : vocabulary_->slices()) {
      walk_difference(slice.nodes.of_byte(first), run, rest.lex, mask);
    }
  }
  return true;
}

TokenMask Matcher::walk_ends(Run run) {
  const TokenTrie::StringEnds& ends = vocabulary_->string_ends();
  TokenMask mask = ends.whole, found(ends.first_token.size() - 1);
  walk_all_terminals(ends.nodes, run, found);
  for (const int32_t i : found.ids()) {
    const auto end = static_cast<size_t>(i);
    for (uint32_t at = ends.first_token[end]; at < ends.first_token[end + 1]; at++) mask.add(ends.tokens[at]);
  }
  return mask;
}

void Matcher::walk_difference(std::span<const TokenTrie::Node> nodes, Run run, LexState other, TokenMask& mask) {
  Lexer& lexer = *constraint_->lexer_;
  std::array<std::pair<LexState, LexState>, TokenTrie::kMaxTokenBytes + 1> path;
  path[0] = {run.lex, other};
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node node = nodes[i];
    const auto [before, other_before] = path[node.depth - 1u];
    const LexState next = lexer.next(before, node.byte), other_next = lexer.next(other_before, node.byte);
    if (next == other_next) {
      i += node.n_below + 1;
    } else if (next == kNoLex || lexer.accepts(next) != 0 || lexer.accepts(other_next) != 0) {
      const auto below = nodes.subspan(i, node.n_below + 1);
      for (const TokenTrie::Node& one : below) {
        if (one.token >= 0) mask.remove(one.token);
      }
      walk_terminals(below, {run.column, before}, mask);
      i += node.n_below + 1;
    } else {
      path[node.depth] = {next, other_next};
      if (node.token >= 0) mask.add(node.token);
      i++;
    }
  }
}

// Most tokens end inside of the terminals that are in progress. The lexer alone knows them; where a terminal may end,
// the frames of the parser go on.
void Matcher::walk_terminals(std::span<const TokenTrie::Node> nodes, Run run, TokenMask& mask) {
  if (nodes.empty()) return;
  Lexer& lexer = *constraint_->lexer_;
  const uint32_t first_depth = nodes[0].depth;
  std::array<LexState, TokenTrie::kMaxTokenBytes + 1> path;
  path[0] = run.lex;
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node node = nodes[i];
    const uint32_t depth = node.depth - first_depth;
    const LexState next = lexer.next(path[depth], node.byte);
    if (next == kNoLex) {
      i += node.n_below + 1;
    } else if (lexer.accepts(next) != 0) {
      const size_t n_runs = runs_.size();
      runs_.push_back({run.column, path[depth]});
      walk_frames(nodes.subspan(i, node.n_below + 1), {.first_run = static_cast<uint32_t>(n_runs), .n_runs = 1}, mask);
      runs_.resize(n_runs);
      i += node.n_below + 1;
    } else {
      path[depth + 1] = next;
      if (node.token >= 0) mask.add(node.token);
      i++;
    }
  }
}

void Matcher::walk_frames(std::span<const TokenTrie::Node> nodes, const Frame& from, TokenMask& mask) {
  if (nodes.empty()) return;
  const size_t n_runs = runs_.size();
  const uint32_t first_depth = nodes[0].depth;
  std::array<Frame, TokenTrie::kMaxTokenBytes + 1> path;
  path[0] = from;
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node node = nodes[i];
    const uint32_t depth = node.depth - first_depth;
    const Frame& parent = path[depth];
    // What deeper nodes on other branches have put there.
    runs_.resize(depth == 0 ? n_runs : parent.first_run + parent.n_runs);
    if (!step(parent, node.byte, path[depth + 1])) {
      i += node.n_below + 1;
      continue;
    }
    if (node.token >= 0) mask.add(node.token);
    i++;
  }
  runs_.resize(n_runs);
}

}  // namespace rocmforge::grammar
