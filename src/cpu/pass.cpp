#include "cpu/pass.h"

#include <algorithm>

#include "base/check.h"
#include "cpu/elementwise.h"
#include "cpu/rare_steps.h"

namespace rocmforge {

using cpu::RowOperation;
using cpu::Weight;

namespace {

// Work on fewer elements than this is done before another thread has woken.
constexpr uint64_t kAloneElements = 16 << 10;

}  // namespace

CpuBackend::Pass::Pass(CpuBackend& backend, const Batch& batch, const FindWeight& find)
    : self_(backend), batch_(batch), find_(find) {
  for (const BatchSequence& sequence : batch.sequences) {
    CHECK(positions_.size() == sequence.first_row);
    CHECK(uint64_t{sequence.first_position} + sequence.n_rows <= uint64_t{sequence.pages.size()} * kPageTokens);
    for (uint32_t r = 0; r < sequence.n_rows; r++) positions_.push_back(sequence.first_position + r);
  }
  CHECK(positions_.size() == batch.n_rows());
}

template <class F>
void CpuBackend::Pass::each_row(SlotId id, F&& f) const {
  const uint32_t n = n_rows(id);
  if (uint64_t{n} * slot(id).width <= kAloneElements) {
    for (uint32_t r = 0; r < n; r++) f(r);
  } else {
    self_.workers_.run(n, [&](size_t r, size_t) { f(r); });
  }
}

cpu::Vector CpuBackend::Pass::vector_of(std::optional<WeightId> id) const {
  cpu::Vector out;
  if (!id) return out;
  const Weight weight = find_(*id);
  const size_t n = weight.shape.row_elements;
  CHECK(weight.shape.n_rows == 1);
  if (weight.shape.dtype == DType::f32) {
    out.values = {reinterpret_cast<const float*>(weight.data), n};
  } else {
    out.space.resize(n);
    cpu::decode_row(out.space.data(), weight, 0);
    out.values = out.space;
  }
  return out;
}

float CpuBackend::Pass::number_of(WeightId id) const {
  const cpu::Vector vector = vector_of(id);
  CHECK(vector.values.size() == 1);
  return vector.values[0];
}

std::vector<float> CpuBackend::Pass::rows_of(std::optional<WeightId> id) const {
  if (!id) return {};
  const Weight weight = find_(*id);
  std::vector<float> out(weight.shape.n_rows * weight.shape.row_elements);
  for (uint64_t r = 0; r < weight.shape.n_rows; r++) {
    cpu::decode_row(out.data() + r * weight.shape.row_elements, weight, r);
  }
  return out;
}

// ---- row by row ----

RowOperation CpuBackend::Pass::operation_of(const Norm& step) const {
  cpu::Vector weight = vector_of(step.weight), bias = vector_of(step.bias);
  const size_t width = slot(step.in).width, group = step.group != 0 ? step.group : width;
  if (!step.weight) {
    weight.space.assign(group, 1.0f);
    weight.values = weight.space;
  }
  const size_t n_weights = weight.values.size();
  CHECK(width % group == 0 && (n_weights == group || n_weights == width) && slot(step.out).width == width);
  CHECK(bias.values.empty() || bias.values.size() == n_weights);
  return cpu::NormRows{.kernels = &kernels(),
                       .kind = step.kind,
                       .epsilon = step.epsilon,
                       .in = rows(step.in),
                       .out = rows(step.out),
                       .weight = std::move(weight),
                       .bias = std::move(bias),
                       .group = group};
}

RowOperation CpuBackend::Pass::operation_of(const Activate& step) const {
  const size_t n = slot(step.out).width;
  CHECK(slot(step.gate).width == n && slot(step.up).width == n);
  return cpu::ActivateRows{.kernel = cpu::activation_kernel(kernels(), step),
                           .step = step,
                           .gate = rows(step.gate),
                           .up = rows(step.up),
                           .out = rows(step.out),
                           .ones = std::vector<float>(step.gated ? 0 : n, 1.0f)};
}

RowOperation CpuBackend::Pass::operation_of(const Add& step) const {
  CHECK(slot(step.in).width == slot(step.out).width);
  return cpu::AddRows{.kernels = &kernels(), .scale = step.scale, .in = rows(step.in), .out = rows(step.out)};
}

std::vector<RowOperation> CpuBackend::Pass::operations_of(std::span<const RowStep> steps) const {
  std::vector<RowOperation> out;
  for (const RowStep& step : steps) {
    out.push_back(std::visit([this](const auto& one) { return operation_of(one); }, step));
  }
  return out;
}

void CpuBackend::Pass::run_rows(SlotId out, std::span<const RowOperation> operations) const {
  each_row(out, [&](size_t r) { cpu::run_row(operations, r); });
}

// ---- products ----

void CpuBackend::Pass::multiply(const Matmul& step, std::span<const RowOperation> before) const {
  struct Part {
    Weight weight;
    cpu::Vector bias;
    std::vector<float*> out;
  };
  const uint32_t width = slot(step.in).width;
  const uint32_t n = n_rows(step.in);
  std::vector<Part> parts(step.parts.size());
  for (size_t p = 0; p < parts.size(); p++) {
    Part& part = parts[p];
    part.weight = find_(step.parts[p].weight);
    part.bias = vector_of(step.parts[p].bias);
    const uint64_t n_out = part.weight.shape.n_rows, n_biases = part.bias.values.size();
    CHECK(slot(step.parts[p].out).width == n_out && (n_biases == 0 || n_biases == n_out));
  }
  const uint32_t tile = self_.multiplier_.max_inputs(width);
  for (uint32_t first = 0; first < n; first += tile) {
    const uint32_t n_now = std::min(tile, n - first);
    std::vector<const float*> in;
    for (uint32_t r = 0; r < n_now; r++) in.push_back(row(step.in, first + r));
    cpu::Multiplier::MakeRow make;
    if (!before.empty()) make = [=](size_t r) { cpu::run_row(before, first + r); };
    self_.multiplier_.prepare(in, width, std::move(make));
    std::vector<cpu::Product> products;
    for (size_t p = 0; p < parts.size(); p++) {
      parts[p].out.clear();
      for (uint32_t r = 0; r < n_now; r++) parts[p].out.push_back(row(step.parts[p].out, first + r));
      const std::span<const float> bias = parts[p].bias.values;
      products.push_back({parts[p].weight, bias.empty() ? nullptr : bias.data(), {}, parts[p].out});
    }
    self_.multiplier_.multiply(products);
  }
  for (const auto& part : step.parts) finish_part(step, part);
}

void CpuBackend::Pass::finish_part(const Matmul& step, const Matmul::Part& part) const {
  CHECK(!part.scale || !part.bias);
  const float scale = step.scale * (part.scale ? number_of(*part.scale) : 1.0f);
  if (scale == 1 && step.softcap == 0 && step.clamp == 0) return;
  const size_t n = slot(part.out).width;
  each_row(part.out, [&](size_t r) {
    cpu::scale_row(row(part.out, r), n, scale);
    if (step.clamp != 0) cpu::clamp(row(part.out, r), n, step.clamp);
    if (step.softcap != 0) cpu::cap(row(part.out, r), n, step.softcap);
  });
}

void CpuBackend::Pass::operator()(const Route& step) const {
  CHECK(slot(step.logits).width == step.n_experts && slot(step.out).width == 2 * step.n_used);
  const cpu::Vector bias = vector_of(step.bias), scales = vector_of(step.expert_scale);
  each_row(step.out, [&](size_t r) {
    cpu::route_row(row(step.out, r), {row(step.logits, r), step.n_experts}, bias.values, step, scales.values);
  });
}

cpu::ExpertPart CpuBackend::Pass::expert_part(const ExpertStack& stack, SlotId out, uint32_t n_products,
                                              const std::vector<float>& bias) const {
  CHECK(slot(out).width % n_products == 0);
  return {{stack.n, [this, stack](uint32_t expert) { return find_(stack[expert]); }},
          slot(out).data,
          slot(out).width / n_products,
          bias};
}

void CpuBackend::Pass::operator()(const ExpertMatmul& step) const {
  std::vector<cpu::ExpertPart> parts;
  std::vector<std::vector<float>> biases;
  for (const auto& part : step.parts) biases.push_back(rows_of(part.bias));
  for (size_t p = 0; p < step.parts.size(); p++) {
    parts.push_back(expert_part(step.parts[p].weight, step.parts[p].out, step.n_used, biases[p]));
  }
  self_.experts_.multiply(parts, {slot(step.routing).data, step.n_used}, slot(step.in).data, n_rows(step.in),
                          slot(step.in).width);
}

void CpuBackend::Pass::operator()(const ExpertCombine& step) const {
  CHECK(slot(step.in).width % step.n_used == 0);
  const std::vector<float> bias = rows_of(step.bias);
  self_.experts_.combine(expert_part(step.weight, step.out, 1, bias), {slot(step.routing).data, step.n_used},
                         slot(step.in).data, n_rows(step.in), slot(step.in).width / step.n_used);
}

// ---- positions, and what is attended to ----

void CpuBackend::Pass::prepare_rope(const Rope& step) const {
  self_.rope_.prepare(step.rope, vector_of(step.factors).values, positions_, self_.workers_);
}

void CpuBackend::Pass::operator()(const Rope& step) const {
  prepare_rope(step);
  for (const SlotId id : {step.q, step.k}) {
    each_row(id, [&](size_t r) { self_.rope_.rotate({row(id, r), slot(id).width}, step.head_size, r); });
    if (step.q == step.k) break;
  }
}

void CpuBackend::Pass::operator()(const StoreKv& step) const {
  const auto store_all = [&](SlotId id, cpu::KvPlane plane) {
    const KvLayer& layer = self_.kv_.layer(step.layer);
    CHECK(slot(id).width == (plane == cpu::KvPlane::keys ? layer.key_width() : layer.value_width()));
    cpu::store_kv(self_.kv_, kernels(), self_.workers_, batch_, step.layer, plane, slot(id).data);
  };
  store_all(step.k, cpu::KvPlane::keys);
  store_all(step.v, cpu::KvPlane::values);
}

void CpuBackend::Pass::attend(const Attend& step, const cpu::Attention::Before& before) const {
  CHECK(slot(step.q).width == step.n_heads * step.head_size);
  CHECK(slot(step.out).width == step.n_heads * step.value_head());
  const cpu::Vector sinks = vector_of(step.sinks);
  CHECK(sinks.values.empty() || sinks.values.size() == step.n_heads);
  self_.attention_.attend(slot(step.out).data, slot(step.q).data, step, sinks.values, self_.kv_, batch_, before);
}

// Where each sequence has one row, a key-value head belongs to one task of attention: that one makes it, too.
void CpuBackend::Pass::operator()(const CachedAttend& step) const {
  const KvLayer& cache = self_.kv_.layer(step.attend.layer);
  const bool fits = step.attend.head_size == cache.key_size && step.attend.value_head() == cache.value_size;
  if (!fits || batch_.sequences.size() != batch_.n_rows()) {
    if (step.rope) (*this)(*step.rope);
    (*this)(step.store);
    (*this)(step.attend);
    return;
  }
  if (step.rope) prepare_rope(*step.rope);
  CHECK(slot(step.store.k).width == cache.key_width() && slot(step.store.v).width == cache.value_width());
  attend(step.attend, [&](const BatchSequence& sequence, uint32_t kv_head) { store_head(step, sequence, kv_head); });
}

void CpuBackend::Pass::store_head(const CachedAttend& step, const BatchSequence& sequence, uint32_t kv_head) const {
  const uint32_t r = sequence.first_row, n = step.attend.head_size;
  const uint32_t group = step.attend.n_heads / step.attend.n_kv_heads;
  float* const keys = row(step.store.k, r) + kv_head * n;
  if (step.rope) {
    self_.rope_.rotate({row(step.attend.q, r) + kv_head * group * n, group * n}, n, r);
    self_.rope_.rotate({keys, n}, n, r);
  }
  if (sequence.first_position < sequence.first_stored) return;
  const auto store_one = [&](cpu::KvPlane plane, const float* from) {
    cpu::store_head(self_.kv_, kernels(), sequence, sequence.first_position, step.store.layer, plane, kv_head, from);
  };
  store_one(cpu::KvPlane::keys, keys);
  store_one(cpu::KvPlane::values, row(step.store.v, r) + kv_head * step.attend.value_head());
}

// ---- rows in and out ----

void CpuBackend::Pass::operator()(const Embed& step) const {
  const Weight table = find_(step.table);
  CHECK(table.shape.row_elements == slot(step.out).width);
  const auto learned = step.positions ? std::optional(find_(*step.positions)) : std::nullopt;
  self_.workers_.run(n_rows(step.out), [&](size_t r, size_t) {
    float* out = row(step.out, r);
    cpu::decode_row(out, table, static_cast<uint64_t>(batch_.tokens[r].value));
    cpu::scale_row(out, slot(step.out).width, step.scale);
    if (!learned) return;
    std::vector<float> position(slot(step.out).width);
    cpu::decode_row(position.data(), *learned, positions_[r]);
    kernels().add(out, position.data(), position.size());
  });
}

void CpuBackend::Pass::operator()(const TakeRows& step) const {
  CHECK(slot(step.in).width == slot(step.out).width);
  for (uint32_t i = 0; i < batch_.n_outputs(); i++) {
    std::copy_n(row(step.in, batch_.output_rows[i]), slot(step.in).width, row(step.out, i));
  }
}

void CpuBackend::Pass::operator()(const TakeColumns& step) const {
  const uint32_t in_width = slot(step.in).width, out_width = slot(step.out).width;
  const uint32_t period = step.period != 0 ? step.period : in_width, n = step.period != 0 ? step.n : out_width;
  CHECK(period > 0 && uint64_t{step.first} + n <= period && in_width % period == 0);
  CHECK(step.out_first + uint64_t{in_width / period} * n <= out_width);
  each_row(step.out, [&](size_t r) {
    float* to = row(step.out, r) + step.out_first;
    for (uint32_t at = step.first; at < in_width; at += period, to += n) std::copy_n(row(step.in, r) + at, n, to);
  });
}

// ---- what few families compute ----

void CpuBackend::Pass::operator()(const Temper& step) const {
  each_row(step.slot, [&](size_t r) {
    cpu::scale_row(row(step.slot, r), slot(step.slot).width, cpu::temperature_at(step.temperature, positions_[r]));
  });
}

void CpuBackend::Pass::operator()(const Gate& step) const {
  CHECK(slot(step.in).width == slot(step.out).width);
  each_row(step.out, [&](size_t r) {
    cpu::gate(row(step.out, r), row(step.in, r), slot(step.out).width, row(step.gate, r), slot(step.gate).width,
              step.kind);
  });
}

void CpuBackend::Pass::operator()(const Scale& step) const {
  const cpu::Vector by = vector_of(step.weight);
  const uint32_t width = slot(step.slot).width;
  CHECK(by.values.size() == 1 || by.values.size() == width);
  each_row(step.slot, [&](size_t r) {
    float* x = row(step.slot, r);
    if (by.values.size() == 1) return cpu::scale_row(x, width, by.values[0]);
    for (uint32_t i = 0; i < width; i++) x[i] *= by.values[i];
  });
}

void CpuBackend::Pass::operator()(const MixStreams& step) const {
  const uint32_t width = slot(step.in).width / step.n_in;
  CHECK(slot(step.in).width == width * step.n_in && slot(step.out).width == width * step.n_out);
  CHECK(step.in != step.out || (step.n_in == 1 && step.n_out == 1));
  CHECK(!step.coefficients || slot(*step.coefficients).width == step.n_in * step.n_out);
  each_row(step.out, [&](size_t r) {
    const float* by = step.coefficients ? row(*step.coefficients, r) : nullptr;
    cpu::mix_streams(row(step.out, r), row(step.in, r), by, width, step);
  });
}

void CpuBackend::Pass::operator()(const MatchLength& step) const {
  const uint32_t width = slot(step.slot).width, n = slot(step.like).width;
  CHECK(n > 0 && width % n == 0 && step.slot != step.like);
  each_row(step.slot, [&](size_t r) { cpu::match_length(row(step.slot, r), width, row(step.like, r), n); });
}

void CpuBackend::Pass::operator()(const CutRow& step) const {
  each_row(step.slot, [&](size_t r) { cpu::cut_row(row(step.slot, r), slot(step.slot).width, step.factor); });
}

void CpuBackend::Pass::operator()(const WeighExperts& step) const {
  each_row(step.routing, [&](size_t r) {
    std::vector<float*> parts;
    std::vector<size_t> widths;
    for (const SlotId id : step.slots) {
      parts.push_back(row(id, r));
      widths.push_back(slot(id).width / step.n_used);
    }
    cpu::weigh(parts, widths, row(step.routing, r), step.n_used);
  });
}

}  // namespace rocmforge
