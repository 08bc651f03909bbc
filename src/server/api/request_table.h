#pragma once
// The running requests and the last ones that ended, by the id of their answer, for /status and /cancel.
//
// Threads: any.

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace rocmforge::server {

struct RequestStatus {
  std::string model = {};
  std::string owner = {};   // only this owner may see the request
  bool is_running = false;  // false: waiting, or finished
  bool is_finished = false;
  std::string finish_reason = {};  // when finished
  uint32_t n_prompt_tokens = 0, n_generated = 0;
};

class RequestTable {
 public:
  static constexpr size_t kMaxEnded = 256;  // kept

  void add(const std::string& id, RequestStatus status, std::function<void()> cancel);
  // Removes a request that was not started.
  void remove(std::string_view id);
  void update(std::string_view id, const std::function<void(RequestStatus&)>& change);
  void end(std::string_view id, std::string finish_reason, uint32_t n_generated);

  std::optional<RequestStatus> find(std::string_view id, std::string_view owner) const;
  // False when there is no such request or it has ended.
  bool cancel(std::string_view id, std::string_view owner);

 private:
  struct Entry {
    RequestStatus status;
    std::function<void()> cancel;
  };
  mutable std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> all_;
  std::deque<std::string> ended_;
};

}  // namespace rocmforge::server
