#include "gpu/modules/machine_code.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>

#include "base/log.h"
#include "gpu/emu/device.h"
#include "gpu/isa/counts.h"
#include "gpu/isa/execute.h"

namespace rocmforge::gpu::machine_code {
namespace {

const char* setting(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::vector<std::string> parts(const std::string& list) {
  std::vector<std::string> out;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ',');) out.push_back(part);
  return out;
}

// For the whole process. Kernels stay with their modules, modules until they are unloaded.
struct Engine {
  std::vector<std::string> targets = parts(setting("ROCMFORGE_MACHINE_CODE"));
  uint64_t seed = std::strtoull(setting("ROCMFORGE_MACHINE_SEED"), nullptr, 10);
  bool checks = std::string(setting("ROCMFORGE_MACHINE_CHECKS")) != "off";
  std::mutex mutex;
  std::string failure;
  isa::CountsOfAll counts{setting("ROCMFORGE_MACHINE_COUNTS")};

  bool fail(const Error& error) {
    const std::lock_guard lock(mutex);
    if (failure.empty()) log(LogLevel::error, "{}", error.message);
    if (failure.empty()) failure = error.message;
    return false;
  }
};
Engine& engine() {
  static Engine instance;
  return instance;
}

void run_now(GpuDevice* device, const isa::Kernel& kernel, const LaunchShape& shape,
             const std::vector<std::byte>& args) {
  if (!engine().failure.empty()) return;
  isa::MemoryMap memory;
  for (const emu::Allocation& a : emu::allocations(*device)) memory.allow(a.from, a.n_bytes, true);
  isa::Launch launch;
  launch.grid = shape.grid;
  launch.n_threads = shape.n_threads;
  launch.shared_bytes = shape.shared_bytes;
  launch.seed = engine().seed;
  if (!engine().checks) launch.checks = isa::kNoChecks;
  launch.checks.counts_traffic = engine().counts.is_kept();
  const auto report = isa::run(kernel, launch, args, memory);
  if (report.ok())
    engine().counts.add(kernel, launch, *report);
  else
    engine().fail(report.error());
}

}  // namespace

bool is_asked_for() {
  return !engine().targets.empty();
}

int n_devices() {
  return static_cast<int>(engine().targets.size());
}

std::string device_name(int device) {
  return engine().targets.at(static_cast<size_t>(device)) + ", machine code on this CPU";
}

const std::string& failure() {
  return engine().failure;
}

bool load(int device, const void* bundle, void** module) {
  const auto* bytes = static_cast<const std::byte*>(bundle);
  const auto n_bytes = isa::bundle_bytes(bytes);
  if (!n_bytes.ok()) return engine().fail(n_bytes.error());
  auto object = isa::CodeObject::load({bytes, *n_bytes}, engine().targets.at(static_cast<size_t>(device)));
  if (!object.ok()) return engine().fail(object.error());
  *module = object->release();
  return true;
}

void unload(void* module) {
  delete static_cast<isa::CodeObject*>(module);
}

bool find(void* module, const char* name, void** kernel) {
  const auto found = static_cast<isa::CodeObject*>(module)->kernel(name);
  if (!found.ok()) return engine().fail(found.error());
  *kernel = const_cast<isa::Kernel*>(*found);
  return true;
}

GpuStatus launch(GpuDevice* device, GpuStream* stream, void* kernel, LaunchShape shape, const void* args) {
  const auto* code = static_cast<const isa::Kernel*>(kernel);
  // Arguments are taken now, as a device does.
  const auto* first = static_cast<const std::byte*>(args);
  std::vector<std::byte> taken(first, first + code->descriptor.kernarg_bytes);
  return emu::put_work(device, stream, [=, taken = std::move(taken)] { run_now(device, *code, shape, taken); });
}

}  // namespace rocmforge::gpu::machine_code
