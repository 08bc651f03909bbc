#pragma once
// The commands of `rocmforge`: one function each, with what the command line asked for as a plain struct.
// Results go to stdout, everything else to stderr. An error returned here becomes one line and exit code 1.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace rocmforge::apps {

struct InspectOptions {
  std::string model;  // a path or a name; empty: the bundled model
  bool json = false;
  bool tensors = false;  // list every tensor, not only the types
};
Result<void> inspect(const InspectOptions& options);

struct QuantizeCommand {
  std::string in;
  std::string out;
  std::string type;  // REQUIRES: the name of a mix
  bool pure = false;
  bool allow_requantize = false;
  bool json = false;
  size_t n_threads = 0;  // 0: one per core
};
Result<void> quantize(const QuantizeCommand& options);

struct SynthCommand {
  std::string shape;  // REQUIRES: the name of a shape
  std::string type;   // REQUIRES: the name of a mix
  std::string out;
  bool pure = false;
  bool sparse = false;
  bool json = false;
  uint64_t seed = 1;
};
Result<void> synth(const SynthCommand& options);

}  // namespace rocmforge::apps
