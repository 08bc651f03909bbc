#include "grammar/matcher.h"

#include <algorithm>

#include "base/check.h"

namespace rocmforge::grammar {
namespace {

constexpr size_t kMaxRuns = 4'096;
constexpr uint32_t kFar = UINT32_MAX / 4;

bool is_at_its_end(const std::pair<uint32_t, Regex>& part) {
  return part.second == kEmptyText;
}

}  // namespace

Matcher::Matcher(std::shared_ptr<Constraint> constraint, std::shared_ptr<const TokenTrie> vocabulary)
    : constraint_(std::move(constraint)), vocabulary_(std::move(vocabulary)) {
  const std::lock_guard lock(constraint_->mutex_);
  parser_.emplace(*constraint_->grammar_, *constraint_->lexer_);
  frames_.push_back(begin(parser_->first()));
  marks_.push_back(parser_->mark());
}

Matcher::Frame Matcher::begin(ColumnId column) {
  Frame frame{.first_run = static_cast<uint32_t>(runs_.size()), .here = column, .is_end = parser_->is_end(column)};
  if (const LexState lex = parser_->lex_start(column); lex != kNoLex) {
    runs_.push_back({column, lex});
    frame.n_runs = 1;
  }
  return frame;
}

Result<void> Matcher::check() const {
  if (is_exhausted_ || parser_->is_exhausted() || constraint_->lexer_->is_exhausted()) {
    return Error{ErrorCode::limit_exceeded, "grammar: the text needs more states than are allowed"};
  }
  return {};
}

bool Matcher::step(const Frame& from, uint8_t byte, Frame& to) {
  Lexer& lexer = *constraint_->lexer_;
  to = {.first_run = static_cast<uint32_t>(runs_.size())};
  ended_.clear();
  for (uint32_t i = 0; i < from.n_runs; i++) {
    const Run run = runs_[from.first_run + i];
    const LexState next = lexer.next(run.lex, byte);
    if (next == kNoLex) continue;
    const uint32_t accepts = lexer.accepts(next);
    if (accepts != 0) ended_.push_back({run.column, accepts});
    // Terminals that are read to their ends take no more bytes.
    if (accepts != 0 && std::ranges::all_of(lexer.parts(next), is_at_its_end)) continue;
    runs_.push_back({run.column, next});
  }
  if (!ended_.empty()) return finish_step(to);
  to.n_runs = static_cast<uint32_t>(runs_.size()) - to.first_run;
  return to.n_runs > 0;
}

bool Matcher::finish_step(Frame& to) {
  to.here = parser_->after(ended_);
  to.is_end = parser_->is_end(to.here);
  if (const LexState lex = parser_->lex_start(to.here); lex != kNoLex) {
    const auto mine = std::span(runs_).subspan(to.first_run);
    const bool is_there =
        std::ranges::any_of(mine, [&](const Run& run) { return run.column == to.here && run.lex == lex; });
    if (!is_there) runs_.push_back({to.here, lex});
  }
  to.n_runs = static_cast<uint32_t>(runs_.size()) - to.first_run;
  // The order in which runs came about must not matter to the mask cache.
  const auto begin = runs_.begin() + to.first_run;
  std::sort(begin, runs_.end(),
            [](const Run& a, const Run& b) { return a.column != b.column ? a.column < b.column : a.lex < b.lex; });
  if (to.n_runs > kMaxRuns) to.n_runs = 0;  // hostile
  return to.n_runs > 0 || to.is_end || parser_->wants_tokens(to.here);
}

bool Matcher::step_all(std::string_view text, Frame& frame) {
  for (const char c : text) {
    Frame next;
    if (!step(frame, static_cast<uint8_t>(c), next)) return false;
    frame = next;
  }
  return true;
}

Result<bool> Matcher::allows(int32_t token) {
  CHECK(vocabulary_ != nullptr);
  const std::lock_guard lock(constraint_->mutex_);
  const Frame& top = frames_.back();
  if (vocabulary_->is_end_of_text(token)) return top.is_end;
  if (const ComputedMask* known = TRY(known_mask())) return known->mask.contains(token);
  if (top.here != kNoColumn && parser_->wants_tokens(top.here) && parser_->allows_token(top.here, token)) return true;
  const std::string_view text = vocabulary_->text(token);
  if (text.empty()) return false;
  const size_t n_runs = runs_.size();
  Frame frame = top;
  const bool out = step_all(text, frame);
  runs_.resize(n_runs);
  TRY(check());
  return out;
}

void Matcher::keep(const Frame& frame, size_t n_runs) {
  // Of the frames on the way there only the last is needed.
  Frame kept = frame;
  std::copy(runs_.begin() + frame.first_run, runs_.begin() + frame.first_run + frame.n_runs,
            runs_.begin() + static_cast<ptrdiff_t>(n_runs));
  kept.first_run = static_cast<uint32_t>(n_runs);
  runs_.resize(n_runs + frame.n_runs);
  frames_.push_back(kept);
  marks_.push_back(parser_->mark());
  const uint64_t n_bytes = runs_.size() * sizeof(Run) + frames_.size() * (sizeof(Frame) + sizeof(Parser::Mark));
  if (!memory_.set(n_bytes)) is_exhausted_ = true;
  mask_ = nullptr;
  is_mask_sought_ = false;
}

Result<void> Matcher::accept(int32_t token) {
  CHECK(vocabulary_ != nullptr);
  const std::lock_guard lock(constraint_->mutex_);
  return accept_locked(token);
}

Result<void> Matcher::accept_locked(int32_t token) {
  parser_->truncate(marks_.back());
  const Frame top = frames_.back();
  const size_t n_runs = runs_.size();
  std::optional<ColumnId> column;
  if (top.here != kNoColumn) column = parser_->after_token(top.here, token);
  Frame frame = top;
  const std::string_view text = vocabulary_->text(token);
  const bool is_text = !text.empty() && step_all(text, frame);
  TRY(check());
  if (column) {
    // A token that may be both, asked for by its id and part of a text: both ways go on.
    const Frame other = begin(*column);
    if (is_text) {
      const std::vector<Run> mine(runs_.begin() + frame.first_run, runs_.begin() + frame.first_run + frame.n_runs);
      runs_.insert(runs_.end(), mine.begin(), mine.end());
      frame = {.first_run = other.first_run,
               .n_runs = other.n_runs + frame.n_runs,
               .here = other.here,
               .is_end = other.is_end || frame.is_end};
    } else {
      frame = other;
    }
  } else {
    CHECK(is_text);
  }
  keep(frame, n_runs);
  return check();
}

Result<size_t> Matcher::accept(std::string_view text) {
  const std::lock_guard lock(constraint_->mutex_);
  parser_->truncate(marks_.back());
  const size_t n_runs = runs_.size();
  Frame frame = frames_.back();
  size_t n = 0;
  for (; n < text.size(); n++) {
    Frame next;
    if (!step(frame, static_cast<uint8_t>(text[n]), next)) break;
    frame = next;
    TRY(check());
    if (runs_.size() < n_runs + kMaxRuns) continue;
    // Frames that are passed are of no use.
    std::copy(runs_.begin() + frame.first_run, runs_.end(), runs_.begin() + static_cast<ptrdiff_t>(n_runs));
    runs_.resize(n_runs + frame.n_runs);
    frame.first_run = static_cast<uint32_t>(n_runs);
  }
  TRY(check());
  if (n > 0) keep(frame, n_runs);
  return n;
}

bool Matcher::is_complete() const {
  const Frame& top = frames_.back();
  return top.is_end && top.n_runs == 0 && (top.here == kNoColumn || !parser_->wants_tokens(top.here));
}

void Matcher::rollback(size_t snapshot) {
  CHECK(snapshot > 0 && snapshot <= frames_.size());
  const std::lock_guard lock(constraint_->mutex_);
  rollback_locked(snapshot);
}

void Matcher::rollback_locked(size_t snapshot) {
  frames_.resize(snapshot);
  marks_.resize(snapshot);
  runs_.resize(frames_.back().first_run + frames_.back().n_runs);
  parser_->truncate(marks_.back());
  mask_ = nullptr;
  is_mask_sought_ = false;
}

Result<bool> Matcher::allows_all() {
  const std::lock_guard lock(constraint_->mutex_);
  const ComputedMask* known = TRY(known_mask());
  return known != nullptr && known->has_all;
}

Result<std::shared_ptr<const TokenMask>> Matcher::mask() {
  CHECK(vocabulary_ != nullptr);
  const std::lock_guard lock(constraint_->mutex_);
  if (!TRY(known_mask())) TRY(compute_mask(mask_key(frames_.back())));
  return std::shared_ptr<const TokenMask>(mask_, &mask_->mask);
}

uint32_t Matcher::least_completion() {
  const std::lock_guard lock(constraint_->mutex_);
  return least_completion_locked();
}

Result<uint32_t> Matcher::least_completion_after(int32_t token) {
  const std::lock_guard lock(constraint_->mutex_);
  // The place itself does not change.
  const auto mask = mask_;
  const bool is_sought = is_mask_sought_;
  const size_t here = frames_.size();
  const auto accepted = accept_locked(token);
  uint32_t least = 0;
  if (accepted.ok()) {
    least = least_completion_locked();
    rollback_locked(here);
  }
  mask_ = mask;
  is_mask_sought_ = is_sought;
  TRY(accepted);
  return least;
}

std::optional<uint8_t> Matcher::only_byte(const Frame& from, Frame& to) {
  const RegexPool& pool = constraint_->grammar_->pool;
  std::optional<uint32_t> found;
  const size_t n_runs = runs_.size();
  for (uint32_t c = 0; c < pool.n_classes(); c++) {
    const bool can_follow = step(from, pool.representative(c), to);
    runs_.resize(n_runs);
    if (!can_follow) continue;
    if (found || constraint_->class_sizes_[c] > 1) return {};
    found = c;
  }
  if (!found || !step(from, pool.representative(*found), to)) return {};
  return pool.representative(*found);
}

Result<std::string> Matcher::forced_text(size_t max_bytes) {
  const std::lock_guard lock(constraint_->mutex_);
  parser_->truncate(marks_.back());
  std::string out;
  const size_t n_runs = runs_.size();
  Frame frame = frames_.back();
  while (out.size() < max_bytes && !frame.is_end && (frame.here == kNoColumn || !parser_->wants_tokens(frame.here))) {
    Frame next;
    const auto byte = only_byte(frame, next);
    TRY(check());
    if (!byte) break;
    out += static_cast<char>(*byte);
    frame = next;
  }
  runs_.resize(n_runs);
  parser_->truncate(marks_.back());
  return out;
}

uint32_t Matcher::least_completion_locked() {
  const Frame& top = frames_.back();
  if (top.is_end) return 0;
  uint32_t least = kFar;
  for (uint32_t i = 0; i < top.n_runs; i++) {
    const Run run = runs_[top.first_run + i];
    for (const auto& [t, rest] : constraint_->lexer_->parts(run.lex)) {
      const uint64_t sum =
          uint64_t{constraint_->lexer_->least_bytes(run.lex, t)} + parser_->least_bytes_after(run.column, t);
      least = static_cast<uint32_t>(std::min<uint64_t>(least, sum));
    }
  }
  return least;
}

}  // namespace rocmforge::grammar
