#pragma once
// For tests: files that must be refused, each with its error code, and files that must be accepted. Names begin with
// the class of the fault: a count, a string, an array, a shape...

#include <string>
#include <vector>

#include "base/error.h"
#include "gguf/raw_gguf.h"

namespace rocmforge::gguf::testing {

struct RejectCase {
  std::string name;
  ErrorCode code;
  RawGguf file;
};
std::vector<RejectCase> reject_cases();

struct AcceptCase {
  std::string name;
  RawGguf file;
};
std::vector<AcceptCase> accept_cases();

}  // namespace rocmforge::gguf::testing
