#include "server/api/request_table.h"

#include <utility>

namespace rocmforge::server {

void RequestTable::add(const std::string& id, RequestStatus status, std::function<void()> cancel) {
  const std::lock_guard lock(mutex_);
  all_.insert_or_assign(id, Entry{std::move(status), std::move(cancel)});
}

void RequestTable::remove(std::string_view id) {
  std::function<void()> released;  // outside the lock
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(id);
  if (found == all_.end() || found->second.status.is_finished) return;
  released = std::move(found->second.cancel);
  all_.erase(found);
}

void RequestTable::update(std::string_view id, const std::function<void(RequestStatus&)>& change) {
  const std::lock_guard lock(mutex_);
  if (const auto found = all_.find(id); found != all_.end()) change(found->second.status);
}

void RequestTable::end(std::string_view id, std::string finish_reason, uint32_t n_generated) {
  std::function<void()> released;  // it may hold the last reference to much: destroyed outside the lock
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(id);
  if (found == all_.end() || found->second.status.is_finished) return;
  RequestStatus& status = found->second.status;
  status.is_running = false;
  status.is_finished = true;
  status.finish_reason = std::move(finish_reason);
  status.n_generated = n_generated;
  released = std::exchange(found->second.cancel, nullptr);
  ended_.push_back(found->first);
  if (ended_.size() > kMaxEnded) {
    all_.erase(ended_.front());
    ended_.pop_front();
  }
}

std::optional<RequestStatus> RequestTable::find(std::string_view id, std::string_view owner) const {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(id);
  if (found == all_.end() || found->second.status.owner != owner) return {};
  return found->second.status;
}

bool RequestTable::cancel(std::string_view id, std::string_view owner) {
  std::function<void()> call;
  {
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(id);
    if (found == all_.end() || found->second.status.owner != owner || found->second.status.is_finished) return false;
    call = found->second.cancel;
  }
  if (call) call();
  return true;
}

}  // namespace rocmforge::server
