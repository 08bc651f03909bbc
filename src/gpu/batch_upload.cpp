#include "gpu/batch_upload.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "base/check.h"

namespace rocmforge::gpu {

Result<BatchUpload> BatchUpload::make(const Device& device, std::byte* to, uint32_t max_rows, uint32_t max_pages) {
  BatchUpload out;
  out.to_ = to;
  out.max_rows_ = max_rows;
  out.max_pages_ = max_pages;
  for (Buffer& buffer : out.buffers_) {
    buffer.pinned = TRY(Memory::allocate(device, Memory::Kind::pinned, n_bytes(max_rows, max_pages)));
    buffer.copied = TRY(Event::make(device));
  }
  out.offered_ = TRY(Memory::allocate(device, Memory::Kind::pinned, n_bytes(max_rows, max_pages)));
  return out;
}

Result<size_t> BatchUpload::count_words(const Batch& batch) const {
  const uint32_t n = batch.n_rows(), n_outputs = batch.n_outputs();
  size_t n_pages = 0;
  for (const BatchSequence& s : batch.sequences) n_pages += s.pages.size();
  if (n > max_rows_ || n_outputs > max_rows_ || n_pages > max_pages_) {
    return Error{ErrorCode::limit_exceeded, fmt::format("gpu: a batch of {} rows and {} pages, reserved for {} and {}",
                                                        n, n_pages, max_rows_, max_pages_)};
  }
  return kHeaderWords + 9 * size_t{n} + n_outputs + n_pages;
}

// Both counts and how many words there are, rows by position, tokens, positions, first pages, first rows, numbers of
// rows, output rows, pages.
void BatchUpload::write(std::span<uint32_t> words, const Batch& batch) {
  const uint32_t n = batch.n_rows(), n_outputs = batch.n_outputs();
  words[0] = n;
  words[1] = n_outputs;
  words[kBatchLength] = static_cast<uint32_t>(words.size());
  words[3] = 0;
  uint32_t* by_position = words.data() + kHeaderWords;
  uint32_t* tokens = by_position + 4 * size_t{n};
  uint32_t* positions = tokens + n;
  uint32_t* first_page = positions + n;
  uint32_t* first_row = first_page + n;
  uint32_t* n_together = first_row + n;
  uint32_t* output_rows = n_together + n;
  uint32_t* pages = output_rows + n_outputs;
  static_assert(sizeof(PageId) == sizeof(uint32_t) && std::is_trivially_copyable_v<PageId>);
  longest_ = most_rows_ = 0;
  fewest_rows_ = n;
  uint32_t listed = 0;
  for (const BatchSequence& s : batch.sequences) {
    for (uint32_t i = 0; i < s.n_rows; i++) {
      tokens[s.first_row + i] = static_cast<uint32_t>(batch.tokens[s.first_row + i].value);
      positions[s.first_row + i] = s.first_position + i;
      first_page[s.first_row + i] = listed;
      first_row[s.first_row + i] = s.first_row;
      n_together[s.first_row + i] = s.n_rows;
    }
    std::memcpy(pages + listed, s.pages.data(), s.pages.size_bytes());
    listed += static_cast<uint32_t>(s.pages.size());
    longest_ = std::max(longest_, s.first_position + s.n_rows);
    fewest_rows_ = std::min(fewest_rows_, s.n_rows);
    most_rows_ = std::max(most_rows_, s.n_rows);
  }
  std::copy(batch.output_rows.begin(), batch.output_rows.end(), output_rows);

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
    std::memcpy(by_position, &place, sizeof place);
    by_position += 4;
  }
}

BatchView BatchUpload::view(const Batch& batch) const {
  const size_t n = batch.n_rows(), n_outputs = batch.n_outputs();
  const auto* sorted = reinterpret_cast<const RowPlace*>(to_ + kHeaderWords * sizeof(uint32_t));
  const auto* on_device = reinterpret_cast<const uint32_t*>(sorted + n);
  return {.tokens = on_device,
          .positions = on_device + n,
          .first_page = on_device + 2 * n,
          .pages = on_device + 5 * n + n_outputs,
          .output_rows = on_device + 5 * n,
          .first_row = on_device + 3 * n,
          .n_together = on_device + 4 * n,
          .by_position = sorted};
}

Result<BatchView> BatchUpload::copy(const Batch& batch, const Stream& stream) {
  words_.resize(TRY(count_words(batch)));
  write(words_, batch);
  if (words_ == last_) return view(batch);
  last_.clear();  // unknown until the copy is on its way
  now_ ^= 1;
  Buffer& buffer = buffers_[now_];
  TRY(buffer.copied.finish());
  const size_t size = words_.size() * sizeof(uint32_t);
  std::memcpy(buffer.pinned.data(), words_.data(), size);
  TRY(stream.copy(to_, buffer.pinned.data(), size, CopyKind::to_device));
  TRY(stream.record(buffer.copied));
  std::swap(last_, words_);
  return view(batch);
}

Result<BatchView> BatchUpload::offer(const Batch& batch, const Stream& stream) {
  const size_t n = TRY(count_words(batch));
  if (is_offered_) TRY(stream.finish());
  last_.clear();
  is_offered_ = true;
  write({reinterpret_cast<uint32_t*>(offered_.data()), n}, batch);
  return view(batch);
}

TakeBatchArgs BatchUpload::take_args() const {
  return {reinterpret_cast<uint32_t*>(to_), reinterpret_cast<const uint32_t*>(offered_.data()),
          static_cast<uint32_t>(n_words(max_rows_, max_pages_))};
}

}  // namespace rocmforge::gpu
