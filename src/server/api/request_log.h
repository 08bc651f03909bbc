#pragma once
// The log line of one request, written when the request is over. The record is shared by everything that works on the
// request; its destructor writes the line.
//
// Threads: any.

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "server/http/request.h"

namespace rocmforge::server {

// The client's X-Request-Id if it is valid in headers and logs, else a new id.
std::string request_id_of(const Request& request);

class RequestRecord {
 public:
  struct Facts {
    std::string client = {};     // Client::label()
    int status = 0;              // 0: the client left before there was an answer
    std::string model = {};      // as named in the request
    std::string answer_id = {};  // of a generation
    std::string finish_reason = {};
    std::string error = {};
    std::optional<uint64_t> n_prompt = {}, n_cached = {}, n_generated = {};  // tokens
    std::optional<double> queue_seconds = {}, first_token_seconds = {};
    std::string ignored = {};  // members of the body, for the answer's header
    bool is_probe = false;     // health checks and the page's parts: for debug
  };

  RequestRecord(const Request& request, Clock clock);
  ~RequestRecord();
  RequestRecord(const RequestRecord&) = delete;
  RequestRecord& operator=(const RequestRecord&) = delete;

  const std::string& id() const { return id_; }
  template <class Change>
  void note(const Change& change) {
    const std::lock_guard lock(mutex_);
    change(facts_);
  }

 private:
  void write() const;

  const std::string id_, method_, path_;
  const Clock clock_;
  const TimePoint arrived_;
  std::mutex mutex_;
  Facts facts_;
};

}  // namespace rocmforge::server
