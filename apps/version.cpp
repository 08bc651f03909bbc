#include "version.h"

#include <string_view>
#include <vector>

#include "generated/version.h"
#include "gpu/module.h"

namespace rocmforge::apps {

std::string_view version_number() {
  return RF_VERSION;
}

std::string version() {
  return RF_VERSION " (" RF_COMMIT ")";
}

std::string version_and_modules() {
  const std::vector<std::string> folders = gpu::module_folders();
  std::string present, absent;
  for (const char* name : gpu::kGpuModules) {
    const auto module = gpu::open_module(name, folders);
    std::string& list = module.ok() ? present : absent;
    const std::string_view reason = module.ok() ? name : std::string_view(module.error().message);
    list += list.empty() ? "" : module.ok() ? ", " : "; ";
    list += reason.substr(reason.starts_with("gpu: ") ? 5 : 0);
  }
  return "rocmforge " + version() + "\nmodules: " + (present.empty() ? "none" : present) +
         (absent.empty() ? "" : " (" + absent + ")");
}

}  // namespace rocmforge::apps
