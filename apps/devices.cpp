#include <fmt/core.h>

#include "base/json.h"
#include "cpu/backend.h"
#include "engine_commands.h"
#include "terminal.h"

namespace rocmforge::apps {

Result<void> devices(const DevicesCommand& options) {
  const CpuBackend cpu;
  if (options.json) {
    JsonWriter w;
    w.begin_object().key("devices").begin_array();
    w.begin_object().key("id").value("cpu").key("name").value(cpu.name()).end_object();
    w.end_array().end_object();
    return print(w.take() + "\n");
  }
  return print(fmt::format("cpu    {}\n", cpu.name()));
}

}  // namespace rocmforge::apps
