#include "server/api/response_store.h"

#include <algorithm>
#include <utility>

namespace rocmforge::server {
namespace {

constexpr uint64_t kEntryBytes = 512, kItemBytes = 96;  // around the texts

uint64_t bytes_of(const std::vector<StoredItem>& items) {
  uint64_t n = 0;
  for (const StoredItem& item : items) n += kItemBytes + item.id.size() + item.json.size();
  return n;
}

}  // namespace

uint64_t StoredResponse::bytes() const {
  return kEntryBytes + id.size() + owner.size() + previous.size() + json.size() + bytes_of(input) + bytes_of(output);
}

bool ResponseStore::put(StoredResponse response) {
  const uint64_t n_bytes = response.bytes();
  if (n_bytes > std::min(limits_.max_bytes, limits_.max_bytes_of_all)) return false;
  const auto ref = std::make_shared<const StoredResponse>(std::move(response));
  const std::lock_guard lock(mutex_);
  drop_old();
  if (const auto old = by_id_.find(ref->id); old != by_id_.end()) drop(old->second);
  while (bytes_ + n_bytes > limits_.max_bytes_of_all && drop_one(nullptr)) {
  }
  const auto over = [&] {
    const auto mine = owners_.find(ref->owner);
    return mine != owners_.end() &&
           (mine->second.n >= limits_.max_count || mine->second.bytes + n_bytes > limits_.max_bytes);
  };
  while (over() && drop_one(&ref->owner)) {
  }
  entries_.push_back({ref, clock_()});
  by_id_[ref->id] = std::prev(entries_.end());
  Owner& owner = owners_[ref->owner];
  owner.n++;
  owner.bytes += n_bytes;
  bytes_ += n_bytes;
  return true;
}

ResponseStore::Ref ResponseStore::find(std::string_view id, std::string_view owner) {
  const std::lock_guard lock(mutex_);
  drop_old();
  const auto found = touch(id, owner);
  return found == entries_.end() ? nullptr : found->response;
}

std::optional<std::vector<ResponseStore::Ref>> ResponseStore::chain(std::string_view id, std::string_view owner) {
  const std::lock_guard lock(mutex_);
  drop_old();
  std::vector<Ref> out;
  std::string next(id);
  while (!next.empty()) {
    const auto found = touch(next, owner);
    if (found == entries_.end() || out.size() == kMaxChain) return {};
    out.push_back(found->response);
    next = found->response->previous;
  }
  std::ranges::reverse(out);
  return out;
}

ResponseStore::Items ResponseStore::find_items(const std::set<std::string, std::less<>>& ids,
                                               std::string_view owner) const {
  std::vector<Ref> responses;
  {
    const std::lock_guard lock(mutex_);
    for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
      if (entry->response->owner == owner) responses.push_back(entry->response);
    }
  }
  Items out;
  for (const Ref& response : responses) {
    for (const auto* items : {&response->output, &response->input}) {
      for (const StoredItem& item : *items) {
        if (out.size() == ids.size()) return out;
        if (ids.contains(item.id)) out.try_emplace(item.id, response, &item);
      }
    }
  }
  return out;
}

bool ResponseStore::erase(std::string_view id, std::string_view owner) {
  const std::lock_guard lock(mutex_);
  const auto found = touch(id, owner);
  if (found == entries_.end()) return false;
  drop(found);
  return true;
}

size_t ResponseStore::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

uint64_t ResponseStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

ResponseStore::Entries::iterator ResponseStore::touch(std::string_view id, std::string_view owner) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end() || found->second->response->owner != owner) return entries_.end();
  found->second->used = clock_();
  entries_.splice(entries_.end(), entries_, found->second);
  return found->second;
}

void ResponseStore::drop(Entries::iterator entry) {
  const Ref response = entry->response;
  const uint64_t n_bytes = response->bytes();
  bytes_ -= n_bytes;
  const auto owner = owners_.find(response->owner);
  owner->second.bytes -= n_bytes;
  if (--owner->second.n == 0) owners_.erase(owner);
  by_id_.erase(by_id_.find(response->id));
  entries_.erase(entry);
}

void ResponseStore::drop_old() {
  const TimePoint now = clock_();
  while (!entries_.empty() && now - entries_.front().used > limits_.max_age) drop(entries_.begin());
}

bool ResponseStore::drop_one(const std::string* owner) {
  const auto found =
      std::ranges::find_if(entries_, [&](const Entry& entry) { return !owner || entry.response->owner == *owner; });
  if (found == entries_.end()) return false;
  drop(found);
  return true;
}

}  // namespace rocmforge::server
