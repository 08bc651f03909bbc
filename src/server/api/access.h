#pragma once
// Who may ask: API keys, hosts and origins.
//
// A key is compared by its digest, all keys are looked at, and every byte of each: how long it takes says nothing.
// A page of another site may reach a server on this machine through its visitor's browser; the Host it gives (its own
// name, rebound to 127.0.0.1) and the Origin show it.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/sha256.h"
#include "server/http/request.h"

namespace rocmforge::server {

class Access {
 public:
  struct Rules {
    std::vector<std::string> api_keys = {};       // none: everybody may
    std::vector<std::string> allowed_hosts = {};  // besides this machine's own names
    bool any_host = false;                        // not bound to loopback: the network decides
    std::vector<std::string> cors_origins = {};   // "*": all
  };
  explicit Access(const Rules& rules);

  bool needs_key() const { return !digests_.empty(); }
  // Whom the request's key belongs to, as a name that is safe to keep; nothing when a key is needed and not there.
  // Every credential that is given must be good, and each header may be there once.
  std::optional<std::string> owner(const Request& request) const;

  bool is_host_allowed(const Request& request) const;
  // Whether answers may be read by pages of this origin.
  bool is_cors_origin(std::string_view origin) const;
  // Whether the request comes from a page that may ask: this server's own, or one of an allowed origin.
  bool is_origin_allowed(const Request& request) const;

 private:
  std::optional<std::string> find_key(std::string_view key) const;

  std::vector<Sha256> digests_;
  std::vector<std::string> hosts_;
  std::vector<std::string> origins_;
  bool any_host_;
};

}  // namespace rocmforge::server
