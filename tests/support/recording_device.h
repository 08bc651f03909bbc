#pragma once
// A device that runs nothing: it writes down what is put on its streams. Device memory has made-up addresses and no
// storage, so that models of any size cost nothing, and the same calls give the same text in every process. It stands
// for cards that are not here: which kernels they would run, in what order and with what arguments.
//
// Threads: one at a time.

#include <string>
#include <vector>

#include "gpu/api.h"
#include "gpu/kernels/target.h"

namespace rocmforge::testing {

// A line for each launch: the kernel, its shape, its arguments as words. Other lines say where graphs begin, end and
// are launched.
struct Recording {
  std::vector<std::string> lines;
  size_t n_launches() const;
  uint64_t hash() const;
  std::string text() const;
};

// Devices opened from now on have this target. The table is valid as long as the program runs.
const gpu::GpuApi& recording_api(const gpu::Target& target);
// What was put on streams since the last call.
Recording take_recording();

}  // namespace rocmforge::testing
