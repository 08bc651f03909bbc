#pragma once
// Brings a batch to the device: copied, or offered in pinned host memory, from where the pass's first kernel copies it.
//
// Threads: one at a time.

#include <span>
#include <vector>

#include "gpu/device.h"
#include "gpu/kernels/batch_view.h"
#include "gpu/kernels/take_batch.h"
#include "plan/batch.h"

namespace rocmforge::gpu {

// The batch as layers see it, and as windowed layers do if they have pages of their own.
struct BatchViews {
  BatchView all, windowed;
};

class BatchUpload {
 public:
  static constexpr size_t kHeaderWords = 4;  // aligns what follows to 16 bytes
  static constexpr uint64_t n_words(uint64_t max_rows, uint64_t max_pages) {
    return (kHeaderWords + 21 * max_rows + max_pages + 3) / 4 * 4;
  }
  static constexpr uint64_t n_bytes(uint32_t max_rows, uint32_t max_pages) {
    return n_words(max_rows, max_pages) * sizeof(uint32_t);
  }

  // `to`: n_bytes() of device memory, for at most max_rows rows and max_pages listed pages. n_states: slots for states
  // of recurrent layers; with any, every sequence of a batch must name slots. n_window_pages: pages of windowed layers;
  // with any, every sequence must list them.
  struct Limits {
    uint32_t max_rows = 0, max_pages = 0, n_states = 0, n_window_pages = 0;
  };
  static Result<BatchUpload> make(const Device& device, std::byte* to, const Limits& limits);

  // Both return limit_exceeded if the batch has too many rows or pages.
  //
  // Copies a batch to the device. All stages of a pass use the same batch; it is copied once.
  Result<BatchViews> copy(const Batch& batch, const Stream& stream);
  // Offers a batch to the next pass on the stream, which must begin with the kernel take_batch. Waits for the stream,
  // unless was_finished() was called, because the previous offered batch must have been copied.
  Result<BatchViews> offer(const Batch& batch, const Stream& stream);
  TakeBatchArgs take_args() const;
  // Tells that all work on the stream is done.
  void was_finished() { is_offered_ = false; }

  // Of the last batch: the positions of its longest sequence, and the smallest and largest number of rows of a
  // sequence.
  uint32_t longest() const { return longest_; }
  uint32_t fewest_rows() const { return fewest_rows_; }
  uint32_t most_rows() const { return most_rows_; }

 private:
  Result<size_t> count_words(const Batch& batch) const;
  void write(std::span<uint32_t> words, const Batch& batch);
  void write_states(uint32_t* words, const Batch& batch) const;
  void sort_rows(uint32_t n, uint32_t* to, const uint32_t* positions, const uint32_t* first_page,
                 const uint32_t* n_together);
  BatchViews views(const Batch& batch) const;

  std::byte* to_ = nullptr;
  Limits limits_;
  struct Buffer {
    Memory pinned;
    Event copied;
  };
  Buffer buffers_[2];  // alternate from copy to copy
  int now_ = 0;
  std::vector<uint32_t> words_, last_;  // last_: the content on the device; empty: unknown
  Memory offered_;                      // pinned
  bool is_offered_ = false;             // to a pass that may not have copied it yet
  std::vector<uint64_t> order_;         // rows, last position first: high bits ~position, low bits row
  uint32_t longest_ = 0, fewest_rows_ = 0, most_rows_ = 0;
};

}  // namespace rocmforge::gpu
