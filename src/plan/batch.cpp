#include "plan/batch.h"

#include <fmt/core.h>

namespace rocmforge {
namespace {

Error bad_batch(std::string fact) {
  return {ErrorCode::invalid_argument, "batch: " + std::move(fact)};
}

}  // namespace

void Batch::clear() {
  tokens.clear();
  sequences.clear();
  output_rows.clear();
}

void Batch::add(std::span<const TokenId> sequence_tokens, uint32_t first_position, std::span<const PageId> pages,
                bool last_only) {
  const uint32_t first_row = n_rows();
  const auto n_new = static_cast<uint32_t>(sequence_tokens.size());
  tokens.insert(tokens.end(), sequence_tokens.begin(), sequence_tokens.end());
  sequences.push_back({.first_row = first_row, .n_rows = n_new, .first_position = first_position, .pages = pages});
  for (uint32_t i = last_only && n_new > 0 ? n_new - 1 : 0; i < n_new; i++) output_rows.push_back(first_row + i);
}

Result<void> check_batch(const Batch& batch, uint32_t n_vocab, uint32_t n_context, uint32_t max_rows,
                         bool has_window_pages) {
  if (batch.n_rows() == 0) return bad_batch("no rows");
  if (batch.n_rows() > max_rows) return bad_batch(fmt::format("{} rows, at most {} fit", batch.n_rows(), max_rows));
  for (uint32_t row = 0; row < batch.n_rows(); row++) {
    const int32_t id = batch.tokens[row].value;
    if (id < 0 || static_cast<uint32_t>(id) >= n_vocab) {
      return bad_batch(fmt::format("row {}: token {} is outside the vocabulary of {}", row, id, n_vocab));
    }
  }
  uint32_t next_row = 0;
  for (const BatchSequence& sequence : batch.sequences) {
    if (sequence.first_row != next_row || sequence.n_rows == 0) {
      return bad_batch(fmt::format("row {}: sequences must cover every row once", next_row));
    }
    next_row += sequence.n_rows;
    const uint64_t end = uint64_t{sequence.first_position} + sequence.n_rows;
    if (end > n_context) {
      return bad_batch(
          fmt::format("row {}: position {} is beyond the context of {}", next_row - 1, end - 1, n_context));
    }
    if (sequence.pages.size() < pages_for_tokens(end)) {
      return bad_batch(fmt::format("row {}: {} pages for {} positions", next_row - 1, sequence.pages.size(), end));
    }
    if (has_window_pages && sequence.window_pages.size() < pages_for_tokens(end)) {
      return bad_batch(fmt::format("row {}: {} pages of windowed layers for {} positions", next_row - 1,
                                   sequence.window_pages.size(), end));
    }
  }
  if (next_row != batch.n_rows()) return bad_batch(fmt::format("row {}: belongs to no sequence", next_row));
  for (size_t i = 0; i < batch.output_rows.size(); i++) {
    const uint32_t row = batch.output_rows[i];
    if (row >= batch.n_rows() || (i > 0 && row <= batch.output_rows[i - 1])) {
      return bad_batch(fmt::format("output row {}: rows must ascend and exist", row));
    }
  }
  return {};
}

}  // namespace rocmforge
