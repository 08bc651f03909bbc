#pragma once
// A device that runs nothing: it reports what is put on its streams. It stands for a card of any target, which need not
// be here. Device memory has made-up addresses and no storage, so models of any size cost nothing; what is copied to
// the host is zeros.
//
// Threads: as gpu/api.h says, except that each device is used by one thread at a time.

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "gpu/api.h"
#include "gpu/kernels/target.h"

namespace rocmforge::gpu {

struct DryLaunch {
  std::string_view file, kernel;
  LaunchShape shape;
  std::span<const std::byte> args;
};

struct DryOptions {
  std::string name;
  Target target;
  std::function<void(const DryLaunch&)> launched;
};

// Devices that this thread opens from now on are like this. The table is valid as long as the program runs.
const GpuApi& dry_api(DryOptions options);

}  // namespace rocmforge::gpu
