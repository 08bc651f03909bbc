#pragma once
// Texts from a file, one in each line.

#include <string>
#include <vector>

#include "base/result.h"

namespace rocmforge::apps {

// Of standard input for "-" or an empty name. The end of a line, also CR LF, belongs to no text.
Result<std::vector<std::string>> lines_of(const std::string& file);

}  // namespace rocmforge::apps
