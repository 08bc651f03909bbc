#pragma once
// Asks the system to read files into the page cache, in order, until this object is destroyed. It fills the time before
// weights can be loaded, while the memory for them is not allocated yet. Bytes already cached cost next to nothing.
//
// Threads: works on a thread of its own. If that thread cannot start, nothing is read ahead; this is an optimisation
// only.

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace rocmforge {

class ReadAhead {
 public:
  // A file that cannot be opened is skipped: the code that needs it will report the error.
  explicit ReadAhead(std::vector<std::string> paths);
  ~ReadAhead();  // waits for the request under way, not for its bytes
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

 private:
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

}  // namespace rocmforge
