#pragma once
// The version by the tags of the repository (cmake/version.cmake), and the commit that the program was built from.

#include <string>
#include <string_view>

namespace rocmforge::apps {

std::string_view version_number();  // "0.1.0", "0.1.0-dev" before a tag, "0.1.0+7" seven commits after one
std::string version();              // "0.1.0 (8d0ec97afe)"
// The same with the program's name, and a second line: which GPU modules are beside it, and why others are not.
std::string version_and_modules();

}  // namespace rocmforge::apps
