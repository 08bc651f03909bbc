#pragma once
// One text under a constraint: what it has been so far, and what may follow. A byte is only accepted if the text can
// still be completed.
//
// Threads: one at a time; matchers of one constraint may be used by different threads.

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/constraint.h"
#include "grammar/parser.h"

namespace rocmforge::grammar {

class Matcher {
 public:
  // Without a vocabulary only bytes can be asked for.
  explicit Matcher(std::shared_ptr<Constraint> constraint, std::shared_ptr<const TokenTrie> vocabulary = nullptr);

  // All below but the plain getters: limit_exceeded when the text needs more memory or states than are allowed.

  // Whether the token may come next; an end-of-text token may where the text may end.
  Result<bool> allows(int32_t token);
  // All tokens that may.
  Result<std::shared_ptr<const TokenMask>> mask();
  // Appends a token. REQUIRES: it is allowed and no end-of-text token
  Result<void> accept(int32_t token);
  // Appends bytes up to the first that cannot follow, and says how many.
  Result<size_t> accept(std::string_view text);

  // Whether the text may end here.
  bool is_end() const { return frames_.back().is_end; }
  // Whether nothing but the end can follow.
  bool is_complete() const;

  // What was appended after the snapshot is taken back by rollback().
  size_t snapshot() const { return frames_.size(); }
  void rollback(size_t snapshot);

  // The fewest bytes with which the text may be completed: an estimate, from below where bounds or sets of keys count.
  uint32_t least_completion();

 private:
  // Terminals being read that began in one column.
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
  // The frame after a byte, its runs put at the end; false when the byte cannot follow.
  bool step(const Frame& from, uint8_t byte, Frame& to);
  bool finish_step(Frame& to);
  bool step_all(std::string_view text, Frame& frame);
  void walk(const TokenTrie::Slice& slice, TokenMask& mask);
  void keep(const Frame& frame, size_t n_runs);
  Result<void> check() const;

  std::shared_ptr<Constraint> constraint_;
  std::shared_ptr<const TokenTrie> vocabulary_;
  std::optional<Parser> parser_;
  std::vector<Run> runs_;
  std::vector<Frame> frames_;  // after each accepted token or text
  std::vector<Parser::Mark> marks_;
  std::vector<EndedTerminals> ended_;
};

}  // namespace rocmforge::grammar
