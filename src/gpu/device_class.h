#pragma once
// Classes of cards as data, for plans and tests of cards that are not here: what the choice of kernels knows of a
// device, and a card that stands for the class. A device that is opened reports its own target (kernels/target.h).

#include <cstdint>
#include <span>
#include <string_view>

#include "gpu/kernels/target.h"

namespace rocmforge::gpu {

struct DeviceClass {
  const char* name;
  const char* card;       // the representative
  Target target;          // what kernels are chosen by
  uint32_t n_units;       // the card's multiprocessors or compute units; 0: it has none
  uint32_t shared_bytes;  // shared memory that a block of the card can have
};

std::span<const DeviceClass> device_classes();
// Null: there is none of this name.
const DeviceClass* find_device_class(std::string_view name);

}  // namespace rocmforge::gpu
