#pragma once
// Access control: API keys, hosts and origins.
//
// Keys are compared by digest, every byte of every key, so that the time reveals nothing about a key.
// A page of another site may reach a server on this machine through the visitor's browser (DNS rebinding). Its Host
// (the site's name, rebound to 127.0.0.1) and its Origin reveal it.
//
// Threads: any. Keys may be replaced at any time (set_keys).

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/api/sha256.h"
#include "server/http/request.h"

namespace rocmforge::server {

struct ApiKeys {
  static constexpr size_t kMinBytes = 8;  // of one key

  std::vector<std::string> users = {};   // none: everybody may ask
  std::vector<std::string> admins = {};  // may also load and unload models
  bool users_are_admins = false;

  // invalid_argument: a key that is too short or that no header can carry. The message does not show the key.
  static Result<void> check(std::string_view key);
};

// The sender of a request.
struct Client {
  std::string owner = {};  // the key's digest; empty: no key was needed
  bool is_admin = false;

  // Names the key in logs: the first digits of its SHA-256 digest.
  std::string_view label() const { return std::string_view(owner).substr(0, 8); }
  // Tells clients apart for fair admission; 0 for everybody without a key.
  uint64_t number() const;
};

class Access {
 public:
  struct Rules {
    ApiKeys keys = {};
    std::vector<std::string> allowed_hosts = {};  // besides this machine's own names
    bool any_host = false;                        // not bound to loopback: the network decides
    std::vector<std::string> cors_origins = {};   // "*": all
  };
  explicit Access(const Rules& rules);

  // Replaces the keys, for new requests.
  void set_keys(const ApiKeys& keys);
  bool needs_key() const;
  // None: a key is needed and was not given. If keys are needed, every credential in the request must be valid, and
  // each header may occur once.
  //
  // Admins (who may load and unload models): the holders of admin keys. With user keys only, nobody, unless
  // users_are_admins. Without any key, everybody.
  std::optional<Client> identify(const Request& request) const;

  bool is_host_allowed(const Request& request) const;
  // Whether pages of this origin may read answers.
  bool is_cors_origin(std::string_view origin) const;
  // Whether the request comes from no page, from this server's own page, or from a page of an allowed origin.
  bool is_origin_allowed(const Request& request) const;

 private:
  struct Digests {
    std::vector<Sha256> users, admins;
    bool users_are_admins = false;
    std::optional<Client> find(std::string_view key) const;
  };
  std::shared_ptr<const Digests> digests() const;

  std::vector<std::string> hosts_;
  std::vector<std::string> origins_;
  bool any_host_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Digests> digests_;
};

}  // namespace rocmforge::server
