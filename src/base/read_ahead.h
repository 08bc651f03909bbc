#pragma once
// Asks the system to bring files into the page cache, in their order, until this object ends: for the time in which
// nothing can be read yet because the memory it would go to is not there. What is cached already costs next to nothing.
//
// Threads: works on one of its own. Without a thread nothing is asked for: it is a help, not a need.

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace rocmforge {

class ReadAhead {
 public:
  // A file that cannot be opened is passed over: whoever needs it will say so.
  explicit ReadAhead(std::vector<std::string> paths);
  ~ReadAhead();  // waits for the piece that is being asked for, not for its bytes
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

 private:
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

}  // namespace rocmforge
