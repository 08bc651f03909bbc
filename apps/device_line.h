#pragma once
// Which device a model runs on, and why not on another: one line for people.

#include <string>

#include "engine/model.h"

namespace rocmforge::apps {

// `asked` is what --device says. "cpu (avx2, 8 threads); not on a GPU: there is none"
std::string device_line(const Model& model, const std::string& asked);

// auto took the CPU, though a GPU is in this machine.
bool passes_over_gpu(const Model& model, const std::string& asked);

}  // namespace rocmforge::apps
