#include <fmt/core.h>

#include "base/json.h"
#include "base/units.h"
#include "cpu/backend.h"
#include "engine_commands.h"
#include "gpu/module.h"
#include "terminal.h"

namespace rocmforge::apps {

Result<void> devices(const DevicesCommand& options) {
  const CpuBackend cpu;
  const gpu::Survey survey = gpu::find_devices(gpu::module_folders());
  if (options.json) {
    JsonWriter w;
    w.begin_object().key("devices").begin_array();
    w.begin_object().key("id").value("cpu").key("name").value(cpu.name()).end_object();
    for (const gpu::FoundDevice& device : survey.devices) {
      w.begin_object().key("id").value(device.id).key("name").value(device.name);
      w.key("module").value(device.module).key("memory_bytes").value(device.memory_bytes);
      w.key("target").value(device.target).end_object();
    }
    w.end_array().key("amd_targets").value(survey.shipped_targets).key("absent").begin_array();
    for (const std::string& absence : survey.absences) w.value(absence);
    w.end_array().end_object();
    return print(w.take() + "\n");
  }
  std::string out = fmt::format("cpu    {}\n", cpu.name());
  for (const gpu::FoundDevice& device : survey.devices) {
    const std::string target = device.target.empty() ? "" : device.target + ", ";
    out += fmt::format("{}  {} ({}, {}{})\n", device.id, device.name, device.module, target,
                       format_bytes(device.memory_bytes));
  }
  for (const std::string& absence : survey.absences) out += fmt::format("no GPU through {}\n", absence);
  if (!survey.shipped_targets.empty()) out += fmt::format("code for AMD's {}\n", survey.shipped_targets);
  return print(out);
}

}  // namespace rocmforge::apps
