#pragma once
// A model file with its weights in other types: read, decoded, encoded and written in pieces, so that memory stays a
// few tens of megabytes whatever the model's size. The output appears whole at its path or not at all.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/file_writer.h"
#include "base/result.h"
#include "gguf/mix.h"

namespace rocmforge::gguf {

struct QuantizeOptions {
  bool pure = false;              // the mix's base type for every weight
  bool allow_requantize = false;  // false: weights that are already quantized are refused
  size_t n_threads = 0;           // 0: one per available core
  WriteOptions output = {};       // what happens to a file that is there already, and when to stop
};

struct QuantizeProgress {
  std::string_view tensor;
  uint64_t n_done = 0;  // weights, of all tensors
  uint64_t n_total = 0;
};

struct QuantizeReport {
  uint64_t n_tensors = 0;
  uint64_t n_converted = 0;   // the others were copied
  uint64_t bytes_before = 0;  // of the weights
  uint64_t bytes_after = 0;
  double relative_error = 0;  // root of (sum of squared differences / sum of squares), over the converted weights
};

// Splits are read as one model and written as one file. Everything that is not a weight to convert, metadata included,
// is copied; general.file_type and general.quantization_version are set.
// Errors: those of the reader and writer; invalid_argument when `to` is one of the files of `from`, under any name;
// unsupported when the mix has no encoder, when a weight is quantized already, or when its type holds no weights;
// out_of_range when a weight is not finite or beyond what the type can hold.
Result<QuantizeReport> quantize_file(const std::string& from, const std::string& to, const Mix& mix,
                                     const QuantizeOptions& options = {},
                                     const std::function<void(const QuantizeProgress&)>& progress = {});

}  // namespace rocmforge::gguf
