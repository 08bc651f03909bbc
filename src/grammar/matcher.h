#pragma once
// One text under a constraint: the text so far, and the bytes or tokens that may follow. A byte is accepted only if the
// text can still be completed.
//
// Threads: one at a time; matchers of one constraint may be used by different threads.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/constraint.h"
#include "grammar/parser.h"

namespace rocmforge::grammar {

class Matcher {
 public:
  // Without a vocabulary only bytes can be matched.
  explicit Matcher(std::shared_ptr<Constraint> constraint, std::shared_ptr<const TokenTrie> vocabulary = nullptr);

  // Errors of all functions that return a Result: limit_exceeded, if the text needs more memory or states than allowed.

  // Whether the token may come next. An end-of-text token may come wherever the text may end.
  Result<bool> allows(int32_t token);
  // Whether every token may come next: false also where that is not known yet.
  Result<bool> allows_all();
  // All tokens that may come next.
  Result<std::shared_ptr<const TokenMask>> mask();
  // Appends a token. REQUIRES: it is allowed and no end-of-text token
  Result<void> accept(int32_t token);
  // Appends bytes up to the first that cannot follow. Returns their number.
  Result<size_t> accept(std::string_view text);

  // Whether the text may end here.
  bool is_end() const { return frames_.back().is_end; }
  // Whether the text must end here.
  bool is_complete() const;

  // rollback() removes everything appended since the snapshot.
  size_t snapshot() const { return frames_.size(); }
  void rollback(size_t snapshot);

  // The fewest bytes that complete the text: a lower bound if counts or sets of keys are involved, else exact.
  uint32_t least_completion();
  // The same behind a token. REQUIRES: it is allowed and no end-of-text token
  Result<uint32_t> least_completion_after(int32_t token);

  // The text that must follow, up to where there is a choice: between bytes, or between more text and the end.
  Result<std::string> forced_text(size_t max_bytes);

 private:
  // Terminals in progress that began in one column.
  struct Run {
    ColumnId column;
    LexState lex;
  };
  struct Frame {
    uint32_t first_run = 0, n_runs = 0;
    ColumnId here = kNoColumn;  // the column that begins here
    bool is_end = false;
  };

  Frame begin(ColumnId column);
  // Computes the frame after a byte, and appends its runs. Returns false if the byte cannot follow.
  bool step(const Frame& from, uint8_t byte, Frame& to);
  bool finish_step(Frame& to);
  bool step_all(std::string_view text, Frame& frame);
  Result<void> accept_locked(int32_t token);
  void rollback_locked(size_t snapshot);
  uint32_t least_completion_locked();
  // The only byte that can follow, and the frame behind it.
  std::optional<uint8_t> only_byte(const Frame& from, Frame& to);
  MaskKey mask_key(const Frame& frame) const;
  // The mask of this place, if it is known or was asked for before; else null.
  Result<const ComputedMask*> known_mask();
  Result<void> compute_mask(const MaskKey& key);
  // Adds the tokens of the tries that may come next. The nodes are those of a slice or of one subtree; the run and the
  // frame are those before their first byte.
  void walk_slice(const TokenTrie::Slice& slice, const Frame& top, TokenMask& mask);
  void walk_terminals(std::span<const TokenTrie::Node> nodes, Run run, TokenMask& mask);
  void walk_all_terminals(const TokenTrie::Nodes& nodes, Run run, TokenMask& mask);
  void walk_frames(std::span<const TokenTrie::Node> nodes, const Frame& from, TokenMask& mask);
  // The mask of a place inside of a string; false: it is none.
  Result<bool> walk_string(const Frame& top, TokenMask& mask);
  // The tokens that may follow in a state that is closed under the characters of strings.
  TokenMask walk_ends(Run run);
  // Turns the mask of the lexer's state `other` into that of the run.
  void walk_difference(std::span<const TokenTrie::Node> nodes, Run run, LexState other, TokenMask& mask);
  void keep(const Frame& frame, size_t n_runs);
  Result<void> check() const;

  std::shared_ptr<Constraint> constraint_;
  std::shared_ptr<const TokenTrie> vocabulary_;
  std::optional<Parser> parser_;
  std::vector<Run> runs_;
  std::vector<Frame> frames_;  // after each accepted token or text
  std::vector<Parser::Mark> marks_;
  std::vector<EndedTerminals> ended_;
  std::shared_ptr<const ComputedMask> mask_;  // of this place; null: not known yet
  bool is_mask_sought_ = false;               // in the cache, for this place
  StateMemory memory_;                        // of runs and frames
  bool is_exhausted_ = false;
};

}  // namespace rocmforge::grammar
