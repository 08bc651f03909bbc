#pragma once
// Synthetic models: real shapes, random weights, and a vocabulary that can encode any text. They measure speed, memory
// and robustness; their output is noise.

#include <cstdint>
#include <functional>
#include <string>

#include "base/file_writer.h"
#include "base/result.h"
#include "gguf/mix.h"
#include "gguf/shapes.h"

namespace rocmforge::gguf {

struct SynthOptions {
  bool pure = false;    // the mix's base type for every weight
  bool sparse = false;  // the header alone: the weights are a hole that reads as zeros
  uint64_t seed = 1;
  WriteOptions output = {};
};

struct SynthReport {
  uint64_t n_tensors = 0;
  uint64_t file_bytes = 0;
};

// Writes the model to `path`. The same arguments give the same bytes. `progress` is told the bytes written so far.
Result<SynthReport> synthesize(const std::string& path, const Shape& shape, const Mix& mix,
                               const SynthOptions& options = {}, const std::function<void(uint64_t)>& progress = {});

}  // namespace rocmforge::gguf
