#pragma once
// Stored answers of the Responses API, which can be read again, continued and deleted: bounded by count, bytes and age,
// for each key and for all keys. The store holds texts only: a continued conversation finds its pages of the cache by
// its tokens, like every other request.
//
// Threads: any.

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace rocmforge::server {

struct StoredItem {
  std::string id;
  std::string json;
};

struct StoredResponse {
  std::string id = {};
  std::string owner = {};     // only this owner may see the response
  std::string previous = {};  // the response that it continues
  std::string json = {};      // the response object
  std::vector<StoredItem> input = {}, output = {};
  bool is_finished = true;

  uint64_t bytes() const;
};

class ResponseStore {
 public:
  struct Limits {
    size_t max_count = 1000;                    // of one key
    uint64_t max_bytes = 64u << 20;             // of one key
    uint64_t max_bytes_of_all = 256u << 20;     // of all keys together
    Duration max_age = std::chrono::hours(24);  // since it was last used
  };
  static constexpr size_t kMaxChain = 1000;  // responses that continue each other

  using Ref = std::shared_ptr<const StoredResponse>;

  ResponseStore(const Limits& limits, Clock clock) : limits_(limits), clock_(std::move(clock)) {}

  // Replaces a response with the same id. The least recently used responses are dropped for it. False: it is larger
  // than the limit.
  bool put(StoredResponse response);
  Ref find(std::string_view id, std::string_view owner);
  // The responses that `id` continues, and `id` itself, the oldest first; none if one of them is missing.
  std::optional<std::vector<Ref>> chain(std::string_view id, std::string_view owner);
  // The items with these ids in any response of `owner`; of several with one id that of the response used last. One
  // walk over the responses, however many ids.
  using Items = std::map<std::string, std::shared_ptr<const StoredItem>, std::less<>>;
  Items find_items(const std::set<std::string, std::less<>>& ids, std::string_view owner) const;
  bool erase(std::string_view id, std::string_view owner);

  size_t size() const;
  uint64_t bytes() const;

 private:
  struct Entry {
    Ref response;
    TimePoint used;
  };
  struct Owner {
    size_t n = 0;
    uint64_t bytes = 0;
  };
  using Entries = std::list<Entry>;  // the least recently used first

  // All with mutex_ held.
  Entries::iterator touch(std::string_view id, std::string_view owner);
  void drop(Entries::iterator entry);
  void drop_old();
  // Whether the least recently used entry of `owner`, or of anybody, was dropped.
  bool drop_one(const std::string* owner);

  const Limits limits_;
  const Clock clock_;
  mutable std::mutex mutex_;
  Entries entries_;
  std::map<std::string, Entries::iterator, std::less<>> by_id_;
  std::map<std::string, Owner, std::less<>> owners_;
  uint64_t bytes_ = 0;
};

}  // namespace rocmforge::server
