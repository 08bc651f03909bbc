#include "cpu/isa/choose.h"

namespace rocmforge::cpu {

const Kernels& choose_kernels() {
  return scalar_kernels();
}

}  // namespace rocmforge::cpu
