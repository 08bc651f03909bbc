#pragma once
// The input of a pass: rows of tokens from any number of sequences, each a run of consecutive positions.
//
//   rows      0 1 2 3 4 | 5 | 6 7 8          sequence a is in prefill, b decodes one token, c begins
//   position  0 1 2 3 4 | 9 | 0 1 2
//   outputs   . . . . x | x | . . x          rows whose logits are wanted, ascending
//
// In a model whose rows attend both ways a run is a whole text, and the output of its last row is the pooled text.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kv/page.h"
#include "kv/state.h"
#include "model/spec.h"

namespace rocmforge {

struct BatchSequence {
  uint32_t first_row = 0;
  uint32_t n_rows = 0;
  uint32_t first_position = 0;
  std::span<const PageId> pages;  // cover positions [0, first_position + n_rows)
  // The pages of windowed layers, if they have their own (PassMemory::n_window_pages): as many positions, but pages
  // that lie before the window of the first row are not read, and any page may stand in their places.
  std::span<const PageId> window_pages = {};
  // State slots of recurrent layers: the state before the first row (none: zeros), and where to store the last row's.
  std::optional<StateId> state_before = {}, state_after = {};
  uint32_t first_stored = 0;  // earlier positions' keys and values are in shared pages already and are not written
  Pooling pooling = Pooling::last;  // for steps that pool rows; rank: as the classifier's input is pooled
};

struct Batch {
  std::vector<TokenId> tokens;           // by row
  std::vector<BatchSequence> sequences;  // in row order, covering every row once
  std::vector<uint32_t> output_rows;     // ascending

  uint32_t n_rows() const { return static_cast<uint32_t>(tokens.size()); }
  uint32_t n_outputs() const { return static_cast<uint32_t>(output_rows.size()); }

  void clear();  // keeps the allocated memory for the next batch
  // Adds the tokens of one sequence. `last_only`: logits of the last row, else of all rows.
  void add(std::span<const TokenId> sequence_tokens, uint32_t first_position, std::span<const PageId> pages,
           bool last_only = true);
};

// Checks that rows, positions, pages and ids fit each other and the model. invalid_argument names the row.
// has_window_pages: windowed layers have pages of their own.
Result<void> check_batch(const Batch& batch, uint32_t n_vocab, uint32_t n_context, uint32_t max_rows,
                         bool has_window_pages = false);

}  // namespace rocmforge
