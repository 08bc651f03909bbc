#pragma once
// Which program this is: "0.1.0 (8d0ec97afe)", the version and the commit it was built from.

#include <string>

namespace rocmforge::apps {

std::string version();

}  // namespace rocmforge::apps
