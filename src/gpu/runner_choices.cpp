// What a step asks of its kernels in words, for the log.

#include <fmt/core.h>

#include "base/log.h"
#include "gpu/runner.h"

namespace rocmforge {

void GpuBackend::Runner::tell(const Matmul& step) const {
  if (!log_enabled(LogLevel::debug)) return;
  std::string parts;
  for (const Matmul::Part& part : step.parts) {
    const WeightShape& shape = weights_.tensor(part.weight).shape;
    parts += fmt::format("{} {} of {}", parts.empty() ? "" : ",", shape.n_rows, dtype_info(shape.dtype).name);
  }
  self_.choices_.begin(
      fmt::format("product, {} rows of {} elements by{}", n_rows(step.in), slot(step.in).width, parts));
}

void GpuBackend::Runner::tell(const Attend& step) const {
  if (!log_enabled(LogLevel::debug)) return;
  self_.choices_.begin(fmt::format("attention, {} rows of {} heads of {}, {} of keys and values in {}{}{}",
                                   n_rows(step.q), step.n_heads, step.head_size, step.n_kv_heads,
                                   self_.kv_type_ == KvType::f16 ? "f16" : "f32", step.window != 0 ? ", a window" : "",
                                   extent_.most_rows > 1 ? ", sequences of many rows" : ""));
}

void GpuBackend::Runner::tell(const ExpertStack& stack, SlotId routing) const {
  if (!log_enabled(LogLevel::debug)) return;
  const WeightShape& shape = weights_.tensor(stack.first).shape;
  self_.choices_.begin(fmt::format("experts, {} rows, {} experts of {} by {} of {}", n_rows(routing), stack.n,
                                   shape.row_elements, shape.n_rows, dtype_info(shape.dtype).name));
}

}  // namespace rocmforge
