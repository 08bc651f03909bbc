#include "gpu/batch_upload.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "base/check.h"

namespace rocmforge::gpu {

Result<BatchUpload> BatchUpload::make(const Device& device, std::byte* to, const Limits& limits) {
  BatchUpload out;
  out.to_ = to;
  out.limits_ = limits;
  const uint64_t size = n_bytes(limits.max_rows, limits.max_pages);
  for (Buffer& buffer : out.buffers_) {
    buffer.pinned = TRY(Memory::allocate(device, Memory::Kind::pinned, size));
    buffer.copied = TRY(Event::make(device));
  }
  out.offered_ = TRY(Memory::allocate(device, Memory::Kind::pinned, size));
  return out;
}

Result<size_t> BatchUpload::count_words(const Batch& batch) const {
  const uint32_t n = batch.n_rows(), n_outputs = batch.n_outputs();
  size_t n_pages = 0;
  const bool has_windows = limits_.n_window_pages > 0;
  for (const BatchSequence& s : batch.sequences) n_pages += s.pages.size() + (has_windows ? s.window_pages.size() : 0);
  if (n > limits_.max_rows || n_outputs > limits_.max_rows || n_pages > limits_.max_pages) {
    return Error{ErrorCode::limit_exceeded, fmt::format("gpu: a batch of {} rows and {} pages, reserved for {} and {}",
                                                        n, n_pages, limits_.max_rows, limits_.max_pages)};
  }
  const size_t n_of_row = 9 + (limits_.n_states > 0 ? 5 : 0) + (has_windows ? 5 : 0);
  return kHeaderWords + n_of_row * n + 2 * size_t{n_outputs} + n_pages;
}

// Both counts and how many words there are, rows by position, (where windowed layers have their own pages: the same
// with those, their first pages,) (where there are states: runs, first stored positions,) tokens, positions, first
// pages, first rows, numbers of rows, output rows, their texts' poolings, pages. All but the pages lie where the counts
// say, so that a recorded pass finds them.
void BatchUpload::write(std::span<uint32_t> words, const Batch& batch) {
  const uint32_t n = batch.n_rows(), n_outputs = batch.n_outputs();
  words[0] = n;
  words[1] = n_outputs;
  words[kBatchLength] = static_cast<uint32_t>(words.size());
  words[3] = 0;
  uint32_t* by_position = words.data() + kHeaderWords;
  const bool has_windows = limits_.n_window_pages > 0;
  uint32_t* window_by_position = by_position + 4 * size_t{n};
  uint32_t* first_window_page = window_by_position + (has_windows ? 4 : 0) * size_t{n};
  uint32_t* runs = first_window_page + (has_windows ? n : 0);
  uint32_t* tokens = runs + (limits_.n_states > 0 ? 5 : 0) * size_t{n};
  if (limits_.n_states > 0) write_states(runs, batch);
  uint32_t* positions = tokens + n;
  uint32_t* first_page = positions + n;
  uint32_t* first_row = first_page + n;
  uint32_t* n_together = first_row + n;
  uint32_t* output_rows = n_together + n;
  uint32_t* poolings = output_rows + n_outputs;
  uint32_t* pages = poolings + n_outputs;
  static_assert(sizeof(PageId) == sizeof(uint32_t) && std::is_trivially_copyable_v<PageId>);
  longest_ = most_rows_ = 0;
  fewest_rows_ = n;
  uint32_t listed = 0, n_pooled = 0;
  for (const BatchSequence& s : batch.sequences) {
    for (; n_pooled < n_outputs && batch.output_rows[n_pooled] < s.first_row + s.n_rows; n_pooled++) {
      poolings[n_pooled] = static_cast<uint32_t>(s.pooling);
    }
    for (uint32_t i = 0; i < s.n_rows; i++) {
      tokens[s.first_row + i] = static_cast<uint32_t>(batch.tokens[s.first_row + i].value);
      positions[s.first_row + i] = s.first_position + i;
      first_page[s.first_row + i] = listed;
      first_row[s.first_row + i] = s.first_row;
      n_together[s.first_row + i] = s.n_rows;
    }
    std::memcpy(pages + listed, s.pages.data(), s.pages.size_bytes());
    listed += static_cast<uint32_t>(s.pages.size());
    if (has_windows) {
      CHECK(s.window_pages.size() >= pages_for_tokens(uint64_t{s.first_position} + s.n_rows));
      std::fill_n(first_window_page + s.first_row, s.n_rows, listed);
      std::memcpy(pages + listed, s.window_pages.data(), s.window_pages.size_bytes());
      listed += static_cast<uint32_t>(s.window_pages.size());
    }
    longest_ = std::max(longest_, s.first_position + s.n_rows);
    fewest_rows_ = std::min(fewest_rows_, s.n_rows);
    most_rows_ = std::max(most_rows_, s.n_rows);
  }
  std::copy(batch.output_rows.begin(), batch.output_rows.end(), output_rows);

  sort_rows(n, by_position, positions, first_page, n_together);
  if (has_windows) sort_rows(n, window_by_position, positions, first_window_page, n_together);
}

void BatchUpload::sort_rows(uint32_t n, uint32_t* to, const uint32_t* positions, const uint32_t* first_page,
                            const uint32_t* n_together) {
  // From step to step sequences advance together: mostly the order of the last batch is still right.
  if (order_.size() != n) {
    order_.resize(n);
    std::iota(order_.begin(), order_.end(), uint64_t{0});
  }
  for (uint64_t& key : order_) {
    const auto row = static_cast<uint32_t>(key);
    key = uint64_t{~positions[row]} << 32 | row;
  }
  if (!std::ranges::is_sorted(order_)) std::ranges::sort(order_);
  for (const uint64_t key : order_) {
    const auto row = static_cast<uint32_t>(key);
    const RowPlace place{row, positions[row], first_page[row], n_together[row]};
    std::memcpy(to, &place, sizeof place);
    to += 4;
  }
}

// Runs, then by row the first position stored.
void BatchUpload::write_states(uint32_t* words, const Batch& batch) const {
  const uint32_t n = batch.n_rows();
  const auto slot = [&](std::optional<StateId> id) {
    CHECK(!id || id->value < limits_.n_states);
    return id ? id->value : kNoState;
  };
  std::fill_n(words, 4 * size_t{n}, 0u);
  uint32_t* first_stored = words + 4 * size_t{n};
  for (const BatchSequence& s : batch.sequences) {
    CHECK(s.state_after.has_value());
    const RunStates run{s.first_row, s.n_rows, slot(s.state_before), slot(s.state_after)};
    std::memcpy(words, &run, sizeof run);
    words += 4;
    std::fill_n(first_stored + s.first_row, s.n_rows, s.first_stored);
  }
}

BatchViews BatchUpload::views(const Batch& batch) const {
  const size_t n = batch.n_rows(), n_outputs = batch.n_outputs();
  const auto* sorted = reinterpret_cast<const RowPlace*>(to_ + kHeaderWords * sizeof(uint32_t));
  const auto* on_device = reinterpret_cast<const uint32_t*>(sorted + n);
  const RowPlace* window_sorted = sorted;
  const uint32_t* first_window_page = nullptr;
  if (limits_.n_window_pages > 0) {
    window_sorted = sorted + n;
    first_window_page = reinterpret_cast<const uint32_t*>(window_sorted + n);
    on_device = first_window_page + n;
  }
  const RunStates* runs = nullptr;
  const uint32_t* first_stored = nullptr;
  if (limits_.n_states > 0) {
    runs = reinterpret_cast<const RunStates*>(on_device);
    first_stored = reinterpret_cast<const uint32_t*>(runs + n);
    on_device = first_stored + n;
  }
  BatchViews out;
  out.all = {.tokens = on_device,
             .positions = on_device + n,
             .first_page = on_device + 2 * n,
             .pages = on_device + 5 * n + 2 * n_outputs,
             .output_rows = on_device + 5 * n,
             .poolings = on_device + 5 * n + n_outputs,
             .first_row = on_device + 3 * n,
             .n_together = on_device + 4 * n,
             .by_position = sorted,
             .runs = runs,
             .first_stored = first_stored};
  out.windowed = out.all;
  if (first_window_page != nullptr) {
    out.windowed.first_page = first_window_page;
    out.windowed.by_position = window_sorted;
  }
  return out;
}

Result<BatchViews> BatchUpload::copy(const Batch& batch, const Stream& stream) {
  words_.resize(TRY(count_words(batch)));
  write(words_, batch);
  if (words_ == last_) return views(batch);
  last_.clear();  // unknown until the copy is on its way
  now_ ^= 1;
  Buffer& buffer = buffers_[now_];
  TRY(buffer.copied.finish());
  const size_t size = words_.size() * sizeof(uint32_t);
  std::memcpy(buffer.pinned.data(), words_.data(), size);
  TRY(stream.copy(to_, buffer.pinned.data(), size, CopyKind::to_device));
  TRY(stream.record(buffer.copied));
  std::swap(last_, words_);
  return views(batch);
}

Result<BatchViews> BatchUpload::offer(const Batch& batch, const Stream& stream) {
  const size_t n = TRY(count_words(batch));
  if (is_offered_) TRY(stream.finish());
  last_.clear();
  is_offered_ = true;
  write({reinterpret_cast<uint32_t*>(offered_.data()), n}, batch);
  return views(batch);
}

TakeBatchArgs BatchUpload::take_args() const {
  return {reinterpret_cast<uint32_t*>(to_), reinterpret_cast<const uint32_t*>(offered_.data()),
          static_cast<uint32_t>(n_words(limits_.max_rows, limits_.max_pages))};
}

}  // namespace rocmforge::gpu
