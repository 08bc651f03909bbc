#pragma once
// A device that runs nothing (gpu/dry_device.h) and writes down what is put on its streams: which kernels a card would
// run, in what order and with what arguments. The same calls give the same text in every process.
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
