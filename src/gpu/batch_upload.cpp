#include "gpu/batch_upload.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <numeric>

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
  return out;
}

Result<BatchView> BatchUpload::put(const Batch& batch, const Stream& stream) {
  const uint32_t n = batch.n_rows(), n_outputs = batch.n_outputs();
  size_t n_pages = 0;
  for (const BatchSequence& s : batch.sequences) n_pages += s.pages.size();
  if (n > max_rows_ || n_outputs > max_rows_ || n_pages > max_pages_) {
    return Error{ErrorCode::limit_exceeded, fmt::format("gpu: a batch of {} rows and {} pages, reserved for {} and {}",
                                                        n, n_pages, max_rows_, max_pages_)};
  }
  // both counts, rows by position, tokens, positions, first pages, first rows, numbers of rows, output rows, pages
  std::vector<uint32_t> words(kHeaderWords + 9 * size_t{n} + n_outputs + n_pages);
  words[0] = n;
  words[1] = n_outputs;
  uint32_t* by_position = words.data() + kHeaderWords;
  uint32_t* tokens = by_position + 4 * size_t{n};
  uint32_t* positions = tokens + n;
  uint32_t* first_page = positions + n;
  uint32_t* first_row = first_page + n;
  uint32_t* n_together = first_row + n;
  uint32_t* output_rows = n_together + n;
  uint32_t* pages = output_rows + n_outputs;
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
    for (const PageId page : s.pages) pages[listed++] = page.value;
    longest_ = std::max(longest_, s.first_position + s.n_rows);
    fewest_rows_ = std::min(fewest_rows_, s.n_rows);
    most_rows_ = std::max(most_rows_, s.n_rows);
  }
  std::vector<uint32_t> rows(n);
  std::iota(rows.begin(), rows.end(), 0u);
  std::ranges::sort(
      rows, [&](uint32_t a, uint32_t b) { return positions[a] != positions[b] ? positions[a] > positions[b] : a < b; });
  for (const uint32_t row : rows) {
    const RowPlace place{row, positions[row], first_page[row], n_together[row]};
    std::memcpy(by_position, &place, sizeof place);
    by_position += 4;
  }
  std::copy(batch.output_rows.begin(), batch.output_rows.end(), output_rows);

  const auto* sorted = reinterpret_cast<const RowPlace*>(to_ + kHeaderWords * sizeof(uint32_t));
  const auto* on_device = reinterpret_cast<const uint32_t*>(sorted + n);
  view_ = {.tokens = on_device,
           .positions = on_device + n,
           .first_page = on_device + 2 * size_t{n},
           .pages = on_device + 5 * size_t{n} + n_outputs,
           .output_rows = on_device + 5 * size_t{n},
           .first_row = on_device + 3 * size_t{n},
           .n_together = on_device + 4 * size_t{n},
           .by_position = sorted};
  if (words == last_) return view_;
  last_.clear();  // unknown until the copy is on its way
  now_ ^= 1;
  Buffer& buffer = buffers_[now_];
  TRY(buffer.copied.finish());
  std::memcpy(buffer.pinned.data(), words.data(), words.size() * sizeof(uint32_t));
  TRY(stream.copy(to_, buffer.pinned.data(), words.size() * sizeof(uint32_t), CopyKind::to_device));
  TRY(stream.record(buffer.copied));
  last_ = std::move(words);
  return view_;
}

}  // namespace rocmforge::gpu
