// The table that finds handlers by name.

#include "gpu/isa/lanes.h"

namespace rocmforge::gpu::isa {

Entry find_handler(const std::string& name) {
  static const Table table = [] {
    Table t;
    add_integers(t);
    add_floats(t);
    add_divisions(t);
    add_doubles(t);
    add_compares(t);
    add_packed(t);
    add_lane_crossing(t);
    add_matrix(t);
    add_scalars(t);
    add_control(t);
    add_scalar_floats(t);
    add_modes(t);
    add_memory(t);
    add_buffers(t);
    add_atomics(t);
    add_lds(t);
    return t;
  }();
  const auto found = table.find(name);
  return found == table.end() ? Entry{} : found->second;
}

}  // namespace rocmforge::gpu::isa
