#include "gpu/isa/counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

namespace rocmforge::gpu::isa {

const char* class_name(Class kind) {
  static constexpr const char* kNames[kNumClasses] = {"scalar",       "vector", "matrix",  "scalar_load", "global_load",
                                                      "global_store", "lds",    "scratch", "atomic",      "wait",
                                                      "barrier",      "branch", "other"};
  return kNames[static_cast<size_t>(kind)];
}

Counts counts_of(const Kernel& kernel, const Report& report) {
  Counts counts{1, report.n_waves, {}, report.traffic};
  for (size_t k = 0; k < report.n_executed.size(); k++) {
    counts.n_by_class[static_cast<size_t>(kernel.instructions[k].kind)] += report.n_executed[k];
  }
  return counts;
}

void CountsOfAll::add(const Kernel& kernel, const Launch& launch, const Report& report) {
  if (!is_kept()) return;
  const Counts more = counts_of(kernel, report);
  const std::lock_guard lock(mutex_);
  Row& row = rows_[kernel.name];
  row.target = kernel.target.name;
  row.n_registers = kernel.n_vector_registers();
  row.lds_bytes = std::max(row.lds_bytes, kernel.descriptor.lds_bytes + launch.shared_bytes);
  row.n_threads = launch.n_threads;
  Counts& sum = row.counts;
  sum.n_launches++;
  sum.n_waves += more.n_waves;
  for (size_t c = 0; c < kNumClasses; c++) sum.n_by_class[c] += more.n_by_class[c];
  sum.traffic += more.traffic;
}

CountsOfAll::~CountsOfAll() {
  if (!is_kept()) return;
  // One write for all, so that processes may share the file.
  std::string text;
  for (const auto& [name, row] : rows_) {
    const Counts& c = row.counts;
    text += fmt::format(R"({{"kernel": "{}", "target": "{}", "registers": {}, "lds_bytes": {}, "threads": {}, )", name,
                        row.target, row.n_registers, row.lds_bytes, row.n_threads);
    text += fmt::format(R"("launches": {}, "waves": {}, )", c.n_launches, c.n_waves);
    for (size_t k = 0; k < kNumClasses; k++) {
      text += fmt::format(R"("{}": {}, )", class_name(static_cast<Class>(k)), c.n_by_class[k]);
    }
    text += fmt::format(R"("requested_bytes": {}, "line_bytes": {}, "lds_accesses": {}, "lds_extra_cycles": {}, )",
                        c.traffic.requested_bytes, c.traffic.line_bytes, c.traffic.lds_accesses,
                        c.traffic.lds_extra_cycles);
    text += fmt::format(R"("load_waits": {}, "loads_under_way": {}}})"
                        "\n",
                        c.traffic.load_waits, c.traffic.loads_under_way);
  }
  std::ofstream(path_, std::ios::app) << text << std::flush;
}

}  // namespace rocmforge::gpu::isa
