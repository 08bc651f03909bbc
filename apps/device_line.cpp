#include "device_line.h"

#include <fmt/core.h>

#include "doctor/doctor.h"
#include "gpu/module.h"

namespace rocmforge::apps {

std::string device_line(const Model& model, const std::string& asked) {
  std::string line(model.backend().name());
  if (asked != "auto") return line;
  if (!model.is_on_gpu()) {
    return line + "; not on a GPU: " + (model.gpu_refusal().empty() ? why_not_gpu() : model.gpu_refusal());
  }
  const auto devices = gpu::find_devices(gpu::module_folders()).devices;
  for (size_t i = 1; i < devices.size(); i++) {
    line += fmt::format("; not on {}, {}{}", devices[i].id, devices[i].name,
                        devices[i].is_integrated ? ", which is integrated" : "");
  }
  return line;
}

bool passes_over_gpu(const Model& model, const std::string& asked) {
  if (asked != "auto" || model.is_on_gpu()) return false;
  return !model.gpu_refusal().empty() || why_not_gpu() != kNoGpu;
}

}  // namespace rocmforge::apps
