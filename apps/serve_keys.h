#pragma once
// The keys that `serve` asks its clients for: from flags, the environment and files.

#include <string>
#include <vector>

#include "base/result.h"
#include "server/api/access.h"

namespace rocmforge::apps {

struct KeyFlags {
  std::vector<std::string> api_keys, admin_keys;
  std::string api_key_file, admin_key_file;  // one key per line; empty: none
  bool users_are_admins = false;
};

// All of them together, each checked, besides the environment's ROCMFORGE_API_KEY and ROCMFORGE_ADMIN_KEY. Warns about
// files that others may read or write. invalid_argument, and what makes a file unreadable; no message shows a key.
Result<server::ApiKeys> read_keys(const KeyFlags& flags);

}  // namespace rocmforge::apps
