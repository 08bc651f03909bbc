#include "cpu/backend.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/checked.h"
#include "base/thread_pool.h"
#include "cpu/elementwise.h"
#include "cpu/isa/choose.h"
#include "cpu/pass_memory.h"
#include "cpu/rare_steps.h"

namespace rocmforge {
namespace {

using cpu::Weight;

// Work on fewer elements than this is done before another thread has woken.
constexpr uint64_t kAloneElements = 16 << 10;

}  // namespace

CpuBackend::CpuBackend(const Options& options)
    : kernels_(options.kernels != nullptr ? *options.kernels : cpu::choose_kernels()),
      available_memory_(options.available_memory),
      workers_(options.n_threads != 0 ? options.n_threads : available_cores()),
      name_(fmt::format("cpu ({}, {} thread{})", kernels_.name, workers_.n_threads(),
                        workers_.n_threads() == 1 ? "" : "s")),
      placement_(kernels_, options.available_memory),
      multiplier_(kernels_, workers_),
      experts_(multiplier_, workers_),
      attention_(kernels_, workers_) {}

uint64_t CpuBackend::pass_bytes(const PassMemory& memory) const {
  const uint64_t workspace =
      cpu::Multiplier::workspace_bytes(workers_.n_threads(), cpu::max_input_width(memory), memory.max_rows);
  const CheckedU64 total = cpu::all_slot_bytes(memory) + cpu::kv_shape(memory).total_bytes() + workspace;
  return total.get().value_or(std::numeric_limits<uint64_t>::max());
}

Result<void> CpuBackend::reserve(const PassMemory& memory) {
  release();
  const uint64_t available = available_memory_();
  // Whether it fits all together; what is allocated below are parts of it.
  if (const uint64_t needed = pass_bytes(memory); needed > available) {
    return cpu::Memory::allocate(needed, available, "context and workspace").error();
  }
  slot_memory_ = TRY(cpu::Memory::allocate(cpu::all_slot_bytes(memory).value(), available, "workspace"));
  const cpu::KvShape shape = cpu::kv_shape(memory);
  kv_ = cpu::KvCache(shape, TRY(cpu::Memory::allocate(shape.total_bytes(), available, "context")));
  uint64_t at = 0;
  for (const Slot& slot : memory.slots) {
    slots_.push_back({reinterpret_cast<float*>(slot_memory_.data() + at), slot.width, slot.rows});
    at += cpu::slot_bytes(slot, memory).value();
  }
  multiplier_.reserve(cpu::max_input_width(memory), memory.max_rows);
  max_rows_ = memory.max_rows;
  max_outputs_ = memory.max_outputs;
  return {};
}

void CpuBackend::release() {
  slots_.clear();
  slot_memory_.release();
  kv_ = {};
  multiplier_.reserve(0, 0);
  candidates_ = {};
  max_rows_ = max_outputs_ = n_rows_ = n_outputs_ = 0;
}

// One visit: what each step does with the slots.
struct CpuBackend::Visitor {
  CpuBackend& self;
  const Batch& batch;
  const FindWeight& find;
  std::vector<uint32_t> positions;              // by batch row
  std::span<const Step> rest = {};              // after the one that is visited
  std::vector<float> spaces[2] = {};            // vectors that make_row reads
  std::function<void(size_t r)> make_row = {};  // of what the next step reads, if that is still to be made
  const Rope* rope = nullptr;                   // what attention is still to do with its heads
  const StoreKv* store = nullptr;

  const cpu::Kernels& kernels() const { return self.kernels_; }
  SlotMemory& slot(SlotId id) const { return self.slots_[id.value]; }
  uint32_t n_rows(SlotId id) const { return slot(id).rows == SlotRows::batch ? batch.n_rows() : batch.n_outputs(); }
  float* row(SlotId id, size_t r) const { return slot(id).data + r * slot(id).width; }

  template <class F>
  void each_row(SlotId id, F&& f) const {
    const uint32_t n = n_rows(id);
    if (uint64_t{n} * slot(id).width <= kAloneElements) {
      for (uint32_t r = 0; r < n; r++) f(r);
    } else {
      self.workers_.run(n, [&](size_t r, size_t) { f(r); });
    }
  }

  // The i-th step from here, if it is of that kind.
  template <class S>
  const S* following(size_t i = 0) const {
    return i < rest.size() ? std::get_if<S>(&rest[i]) : nullptr;
  }

  // The rows of a slot, after what they still wait for. The next step may multiply them: then each is made where it is
  // prepared for that.
  template <class F>
  void make_rows(SlotId id, F&& f) {
    if (make_row) {
      make_row = [before = std::move(make_row), f](size_t r) {
        before(r);
        f(r);
      };
    } else {
      make_row = std::forward<F>(f);
    }
    const auto* product = following<Matmul>();
    if (product != nullptr && product->in == id) return;
    each_row(id, make_row);
    make_row = {};
  }

  // Whether a key-value head of a row can be turned, stored and attended to at once: no other task reads it.
  bool goes_by_heads(const StoreKv* to_store, const Attend* attend) const {
    return to_store != nullptr && attend != nullptr && to_store->layer == attend->layer &&
           attend->head_size == self.kv_.layer(attend->layer).key_size &&
           attend->value_head() == self.kv_.layer(attend->layer).value_size && batch.sequences.size() == batch.n_rows();
  }

  // A vector of a weight: norms, biases, factors. One of another type than f32 is decoded into `space`.
  std::span<const float> vector_of(WeightId id, std::vector<float>& space) const {
    const Weight weight = find(id);
    const size_t n = weight.shape.row_elements;
    CHECK(weight.shape.n_rows == 1);
    if (weight.shape.dtype == DType::f32) return {reinterpret_cast<const float*>(weight.data), n};
    space.resize(n);
    cpu::decode_row(space.data(), weight, 0);
    return space;
  }
  std::span<const float> vector_of(std::optional<WeightId> id, std::vector<float>& space) const {
    return id ? vector_of(*id, space) : std::span<const float>();
  }

  float number_of(WeightId id) const {
    std::vector<float> space;
    const auto vector = vector_of(id, space);
    CHECK(vector.size() == 1);
    return vector[0];
  }

  // A row for each expert: its bias.
  std::vector<float> rows_of(std::optional<WeightId> id) const {
    if (!id) return {};
    const Weight weight = find(*id);
    std::vector<float> out(weight.shape.n_rows * weight.shape.row_elements);
    for (uint64_t r = 0; r < weight.shape.n_rows; r++) {
      cpu::decode_row(out.data() + r * weight.shape.row_elements, weight, r);
    }
    return out;
  }
  static void scale_row(float* row, size_t n, float scale) {
    if (scale == 1) return;
    for (size_t i = 0; i < n; i++) row[i] *= scale;
  }

  void operator()(const Embed& step) const {
    const Weight table = find(step.table);
    CHECK(table.shape.row_elements == slot(step.out).width);
    const auto learned = step.positions ? std::optional(find(*step.positions)) : std::nullopt;
    self.workers_.run(n_rows(step.out), [&](size_t r, size_t) {
      float* out = row(step.out, r);
      cpu::decode_row(out, table, static_cast<uint64_t>(batch.tokens[r].value));
      scale_row(out, slot(step.out).width, step.scale);
      if (!learned) return;
      std::vector<float> position(slot(step.out).width);
      cpu::decode_row(position.data(), *learned, positions[r]);
      kernels().add(out, position.data(), position.size());
    });
  }

  void operator()(const Norm& step) {
    if (!step.weight) spaces[0].assign(step.group != 0 ? step.group : slot(step.in).width, 1.0f);
    const auto weight = step.weight ? vector_of(*step.weight, spaces[0]) : std::span<const float>(spaces[0]);
    const auto bias = vector_of(step.bias, spaces[1]);
    const size_t width = slot(step.in).width;
    const size_t n = step.group != 0 ? step.group : width;
    CHECK(width % n == 0 && (weight.size() == n || weight.size() == width) && slot(step.out).width == width);
    CHECK(bias.empty() || bias.size() == weight.size());
    const size_t stride = weight.size() == n ? 0 : n;  // from one group's weights to the next one's
    make_rows(step.out, [=, this](size_t r) {
      for (size_t g = 0; g < width / n; g++) {
        float* out = row(step.out, r) + g * n;
        const float* in = row(step.in, r) + g * n;
        const float* group_weight = weight.data() + g * stride;
        const float* group_bias = bias.empty() ? nullptr : bias.data() + g * stride;
        switch (step.kind) {
          case NormKind::rms:
            kernels().rms_norm(out, in, group_weight, n, step.epsilon);
            if (group_bias) kernels().add(out, group_bias, n);
            break;
          case NormKind::layer:
            kernels().layer_norm(out, in, group_weight, group_bias, n, step.epsilon);
            break;
        }
      }
    });
  }

  void operator()(const Matmul& step) {
    struct Part {
      Weight weight;
      std::vector<float> bias_space;
      std::span<const float> bias;
      std::vector<float*> out;
    };
    const uint32_t width = slot(step.in).width;
    const uint32_t n = n_rows(step.in);
    std::vector<Part> parts(step.parts.size());
    for (size_t p = 0; p < parts.size(); p++) {
      Part& part = parts[p];
      part.weight = find(step.parts[p].weight);
      part.bias = vector_of(step.parts[p].bias, part.bias_space);
      const uint64_t n_out = part.weight.shape.n_rows;
      CHECK(slot(step.parts[p].out).width == n_out && (part.bias.empty() || part.bias.size() == n_out));
    }
    const uint32_t tile = self.multiplier_.max_inputs(width);
    for (uint32_t first = 0; first < n; first += tile) {
      const uint32_t n_now = std::min(tile, n - first);
      std::vector<const float*> in;
      for (uint32_t r = 0; r < n_now; r++) in.push_back(row(step.in, first + r));
      cpu::Multiplier::MakeRow make;
      if (make_row) make = [&](size_t r) { make_row(first + r); };
      self.multiplier_.prepare(in, width, std::move(make));
      std::vector<cpu::Product> products;
      for (size_t p = 0; p < parts.size(); p++) {
        parts[p].out.clear();
        for (uint32_t r = 0; r < n_now; r++) parts[p].out.push_back(row(step.parts[p].out, first + r));
        const float* bias = parts[p].bias.empty() ? nullptr : parts[p].bias.data();
        products.push_back({parts[p].weight, bias, {}, parts[p].out});
      }
      self.multiplier_.multiply(products);
    }
    make_row = {};
    for (const auto& part : step.parts) {
      const float scale = step.scale * (part.scale ? number_of(*part.scale) : 1.0f);
      CHECK(!part.scale || !part.bias);
      if (scale == 1 && step.softcap == 0 && step.clamp == 0) continue;
      each_row(part.out, [&](size_t r) {
        scale_row(row(part.out, r), slot(part.out).width, scale);
        if (step.clamp != 0) cpu::clamp(row(part.out, r), slot(part.out).width, step.clamp);
        if (step.softcap != 0) cpu::cap(row(part.out, r), slot(part.out).width, step.softcap);
      });
    }
  }

  void operator()(const Rope& step) {
    std::vector<float> space;
    self.rope_.prepare(step.rope, vector_of(step.factors, space), positions, self.workers_);
    const auto* to_store = following<StoreKv>(0);
    const auto* attend = following<Attend>(1);
    if (goes_by_heads(to_store, attend) && step.head_size == attend->head_size && step.q == attend->q &&
        step.k == to_store->k) {
      rope = &step;
      return;
    }
    for (const SlotId id : {step.q, step.k}) {
      each_row(id, [&](size_t r) { self.rope_.rotate({row(id, r), slot(id).width}, step.head_size, r); });
      if (step.q == step.k) break;
    }
  }

  void operator()(const StoreKv& step) {
    if (goes_by_heads(&step, following<Attend>())) {
      store = &step;
      return;
    }
    const auto store_all = [&](SlotId id, cpu::KvPlane plane) {
      const KvLayer& layer = self.kv_.layer(step.layer);
      CHECK(slot(id).width == (plane == cpu::KvPlane::keys ? layer.key_width() : layer.value_width()));
      cpu::store_kv(self.kv_, kernels(), self.workers_, batch, step.layer, plane, slot(id).data);
    };
    store_all(step.k, cpu::KvPlane::keys);
    store_all(step.v, cpu::KvPlane::values);
  }

  // Of a sequence's one row: turns a key-value head and its queries, and stores it.
  void turn_and_store(const Attend& step, const BatchSequence& sequence, uint32_t kv_head) const {
    const uint32_t r = sequence.first_row, n = step.head_size, group = step.n_heads / step.n_kv_heads;
    float* const keys = row(store->k, r) + kv_head * n;
    if (rope != nullptr) {
      self.rope_.rotate({row(step.q, r) + kv_head * group * n, group * n}, n, r);
      self.rope_.rotate({keys, n}, n, r);
    }
    const auto store_one = [&](cpu::KvPlane plane, const float* from) {
      cpu::store_head(self.kv_, kernels(), sequence, sequence.first_position, step.layer, plane, kv_head, from);
    };
    store_one(cpu::KvPlane::keys, keys);
    store_one(cpu::KvPlane::values, row(store->v, r) + kv_head * step.value_head());
  }

  void operator()(const Attend& step) {
    CHECK(slot(step.q).width == step.n_heads * step.head_size);
    CHECK(slot(step.out).width == step.n_heads * step.value_head());
    std::vector<float> space;
    const auto sinks = vector_of(step.sinks, space);
    CHECK(sinks.empty() || sinks.size() == step.n_heads);
    cpu::Attention::Before before;
    if (store != nullptr) {
      const KvLayer& layer = self.kv_.layer(step.layer);
      CHECK(slot(store->k).width == layer.key_width() && slot(store->v).width == layer.value_width());
      before = [&](const BatchSequence& sequence, uint32_t kv_head) { turn_and_store(step, sequence, kv_head); };
    }
    self.attention_.attend(slot(step.out).data, slot(step.q).data, step, sinks, self.kv_, batch, before);
    rope = nullptr;
    store = nullptr;
  }

  void operator()(const Activate& step) {
    const size_t n = slot(step.out).width;
    CHECK(slot(step.gate).width == n && slot(step.up).width == n);
    if (cpu::is_rare(step)) {
      return make_rows(step.out, [=, this](size_t r) {
        cpu::activate(row(step.out, r), row(step.gate, r), step.gated ? row(step.up, r) : nullptr, n, step);
      });
    }
    const auto kernel = [&] {
      switch (step.kind) {
        case Activation::silu:
          return kernels().silu_multiply;
        case Activation::gelu:
          return kernels().gelu_multiply;
        case Activation::clamped_swish:
          return &cpu::clamped_swish_multiply;
        case Activation::relu:
        case Activation::relu_squared:
        case Activation::xielu:
          break;
      }
      RF_UNREACHABLE("an activation that is none");
    }();
    spaces[0].assign(step.gated ? 0 : n, 1.0f);
    make_rows(step.out, [=, this](size_t r) {
      kernel(row(step.out, r), row(step.gate, r), step.gated ? row(step.up, r) : spaces[0].data(), n);
    });
  }

  void operator()(const Add& step) {
    CHECK(slot(step.in).width == slot(step.out).width);
    const size_t n = slot(step.out).width;
    const auto add = [=, this](size_t r) {
      float* out = row(step.out, r);
      const float* in = row(step.in, r);
      if (step.scale == 1) return kernels().add(out, in, n);
      for (size_t i = 0; i < n; i++) out[i] += step.scale * in[i];
    };
    const auto* norm = following<Norm>();
    if (norm != nullptr && norm->in == step.out) {
      make_row = add;
    } else {
      each_row(step.out, add);
    }
  }

  void operator()(const Route& step) const {
    CHECK(slot(step.logits).width == step.n_experts && slot(step.out).width == 2 * step.n_used);
    std::vector<float> space;
    const auto bias = vector_of(step.bias, space);
    std::vector<float> scale_space;
    const auto scales = vector_of(step.expert_scale, scale_space);
    each_row(step.out, [&](size_t r) {
      cpu::route_row(row(step.out, r), {row(step.logits, r), step.n_experts}, bias, step, scales);
    });
  }

  cpu::ExpertPart expert_part(const ExpertStack& stack, SlotId out, uint32_t n_products,
                              const std::vector<float>& bias) const {
    CHECK(slot(out).width % n_products == 0);
    return {{stack.n, [this, stack](uint32_t expert) { return find(stack[expert]); }},
            slot(out).data,
            slot(out).width / n_products,
            bias};
  }

  void operator()(const ExpertMatmul& step) const {
    std::vector<cpu::ExpertPart> parts;
    std::vector<std::vector<float>> biases;
    for (const auto& part : step.parts) biases.push_back(rows_of(part.bias));
    for (size_t p = 0; p < step.parts.size(); p++) {
      parts.push_back(expert_part(step.parts[p].weight, step.parts[p].out, step.n_used, biases[p]));
    }
    self.experts_.multiply(parts, {slot(step.routing).data, step.n_used}, slot(step.in).data, n_rows(step.in),
                           slot(step.in).width);
  }

  void operator()(const ExpertCombine& step) const {
    CHECK(slot(step.in).width % step.n_used == 0);
    const std::vector<float> bias = rows_of(step.bias);
    self.experts_.combine(expert_part(step.weight, step.out, 1, bias), {slot(step.routing).data, step.n_used},
                          slot(step.in).data, n_rows(step.in), slot(step.in).width / step.n_used);
  }

  void operator()(const Temper& step) const {
    each_row(step.slot, [&](size_t r) {
      scale_row(row(step.slot, r), slot(step.slot).width, cpu::temperature_at(step.temperature, positions[r]));
    });
  }

  void operator()(const Gate& step) const {
    CHECK(slot(step.in).width == slot(step.out).width);
    each_row(step.out, [&](size_t r) {
      cpu::gate(row(step.out, r), row(step.in, r), slot(step.out).width, row(step.gate, r), slot(step.gate).width,
                step.kind);
    });
  }

  void operator()(const Scale& step) const {
    const float scale = number_of(step.weight);
    each_row(step.slot, [&](size_t r) { scale_row(row(step.slot, r), slot(step.slot).width, scale); });
  }

  void operator()(const TakeColumns& step) const {
    CHECK(uint64_t{step.first} + slot(step.out).width <= slot(step.in).width);
    each_row(step.out,
             [&](size_t r) { std::copy_n(row(step.in, r) + step.first, slot(step.out).width, row(step.out, r)); });
  }

  void operator()(const WeighExperts& step) const {
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

  void operator()(const TakeRows& step) const {
    CHECK(slot(step.in).width == slot(step.out).width);
    for (uint32_t i = 0; i < batch.n_outputs(); i++) {
      std::copy_n(row(step.in, batch.output_rows[i]), slot(step.in).width, row(step.out, i));
    }
  }
};

Result<void> CpuBackend::run(std::span<const Step> steps, const Batch& batch, const FindWeight& find) {
  CHECK(batch.n_rows() <= max_rows_ && batch.n_outputs() <= max_outputs_);
  n_rows_ = batch.n_rows();
  n_outputs_ = batch.n_outputs();
  Visitor visitor{*this, batch, find, {}};
  for (const BatchSequence& sequence : batch.sequences) {
    CHECK(visitor.positions.size() == sequence.first_row);
    CHECK(uint64_t{sequence.first_position} + sequence.n_rows <= uint64_t{sequence.pages.size()} * kPageTokens);
    for (uint32_t r = 0; r < sequence.n_rows; r++) visitor.positions.push_back(sequence.first_position + r);
  }
  CHECK(visitor.positions.size() == batch.n_rows());
  for (size_t i = 0; i < steps.size(); i++) {
    visitor.rest = steps.subspan(i + 1);
    std::visit(visitor, steps[i]);
  }
  return {};
}

Result<void> CpuBackend::run(std::span<const Step> steps, const Batch& batch, const WeightStore& weights) {
  return run(steps, batch, [&](WeightId id) {
    const LazyTensor& tensor = weights.tensor(id);
    return Weight{tensor.shape, placement_.base() + weights.address(id), cpu::packed_format(kernels_, tensor.shape)};
  });
}

Result<void> CpuBackend::read(std::span<float> out, SlotId slot) {
  CHECK(slot.value < slots_.size());
  const SlotMemory& memory = slots_[slot.value];
  const uint64_t n_rows = memory.rows == SlotRows::batch ? n_rows_ : n_outputs_;
  CHECK(out.size() == n_rows * memory.width);
  std::copy_n(memory.data, out.size(), out.data());
  return {};
}

Result<std::span<const RowCandidates>> CpuBackend::read_candidates(uint32_t n, SlotId logits) {
  CHECK(logits.value < slots_.size());
  const SlotMemory& memory = slots_[logits.value];
  CHECK(memory.rows == SlotRows::outputs && n <= n_outputs_);
  if (candidates_.size() < n) candidates_.resize(n);
  workers_.run(n, [&](size_t r, size_t) {
    select_candidates(candidates_[r], std::span(memory.data + r * memory.width, memory.width), kernels_.sum_of_powers);
  });
  return std::span<const RowCandidates>(candidates_).first(n);
}

}  // namespace rocmforge
