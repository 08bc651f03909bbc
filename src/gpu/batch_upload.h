#pragma once
// Brings a batch to the device. A pass runs stage by stage with the same batch: it goes up once.
//
// Threads: one at a time.

#include <vector>

#include "gpu/device.h"
#include "gpu/kernels/batch_view.h"
#include "plan/batch.h"

namespace rocmforge::gpu {

class BatchUpload {
 public:
  static constexpr size_t kHeaderWords = 4;  // so that what follows is aligned to 16 bytes
  static uint64_t n_bytes(uint32_t max_rows, uint32_t max_pages) {
    return (kHeaderWords + uint64_t{10} * max_rows + max_pages) * sizeof(uint32_t);
  }

  // `to`: n_bytes() of device memory, for at most max_rows rows and max_pages listed pages.
  static Result<BatchUpload> make(const Device& device, std::byte* to, uint32_t max_rows, uint32_t max_pages);

  // limit_exceeded: more rows or pages than there is room for.
  Result<BatchView> put(const Batch& batch, const Stream& stream);
  // Of the last batch: positions of its longest sequence, and the fewest and the most rows that one has in it.
  uint32_t longest() const { return longest_; }
  uint32_t fewest_rows() const { return fewest_rows_; }
  uint32_t most_rows() const { return most_rows_; }

 private:
  std::byte* to_ = nullptr;
  uint32_t max_rows_ = 0, max_pages_ = 0;
  struct Buffer {
    Memory pinned;
    Event copied;
  };
  Buffer buffers_[2];
  int now_ = 0;
  std::vector<uint32_t> last_;  // what lies on the device
  BatchView view_{};
  uint32_t longest_ = 0, fewest_rows_ = 0, most_rows_ = 0;
};

}  // namespace rocmforge::gpu
