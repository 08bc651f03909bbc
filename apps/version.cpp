#include "version.h"

#include "generated/commit.h"

namespace rocmforge::apps {

std::string version() {
  return RF_VERSION " (" RF_COMMIT ")";
}

}  // namespace rocmforge::apps
