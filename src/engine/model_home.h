#pragma once
// The memory that a model is in (the machine's or the GPU's), and byte counts for each.

#include <cstddef>
#include <cstdint>

#include "engine/model.h"

namespace rocmforge {

enum class ModelHome : uint8_t { machine, gpu };

inline ModelHome home_of(const Model& model) {
  return model.is_on_gpu() ? ModelHome::gpu : ModelHome::machine;
}

class BytesByHome {
 public:
  uint64_t& operator[](ModelHome home) { return of_[static_cast<size_t>(home)]; }
  uint64_t operator[](ModelHome home) const { return of_[static_cast<size_t>(home)]; }

 private:
  uint64_t of_[2] = {};
};

}  // namespace rocmforge
