#include "gpu/supported.h"

#include <fmt/core.h>

#include <algorithm>

#include "gpu/distance_buckets.h"
#include "gpu/kernels/attend.h"
#include "gpu/kernels/recurrent.h"
#include "gpu/kernels/route.h"
#include "gpu/kernels/texts.h"
#include "gpu/packed/lists.h"
#include "gpu/pass_layout.h"

namespace rocmforge::gpu {
namespace {

bool has_kernels(DType dtype) {
#define RF_IS_FORMAT(name, Block) \
  if (dtype == DType::name) return true;
  RF_INTEGER_FORMATS(RF_IS_FORMAT)
  RF_FLOAT_FORMATS(RF_IS_FORMAT)
#undef RF_IS_FORMAT
  return false;
}

// What a step asks for and the kernels lack; empty when there is nothing.
struct Missing {
  const WeightStore& weights;
  using Name = std::string;

  Name weight(std::optional<WeightId> id) const {
    if (!id || has_kernels(dtype(*id))) return {};
    return fmt::format("weights of type {}", dtype_info(dtype(*id)).name);
  }
  Name expert_bias(std::optional<WeightId> id) const {
    return !id || dtype(*id) == DType::f32 ? Name() : "biases of experts that are not F32";
  }
  DType dtype(WeightId id) const { return weights.tensor(id).shape.dtype; }
  static Name first_of(std::initializer_list<Name> names) {
    for (const Name& name : names) {
      if (!name.empty()) return name;
    }
    return {};
  }

  Name operator()(const Embed& s) const { return first_of({weight(s.table), weight(s.positions)}); }
  Name operator()(const Norm& s) const { return first_of({weight(s.weight), weight(s.bias)}); }
  Name operator()(const Matmul& s) const {
    Name name;
    for (const auto& part : s.parts) {
      name = first_of({name, weight(part.weight), weight(part.bias), number(part.scale)});
    }
    return name;
  }
  // A number is read where it lies.
  Name number(std::optional<WeightId> id) const {
    return !id || dtype(*id) == DType::f32 ? Name() : "scales that are not F32";
  }
  Name operator()(const Rope& s) const {
    return s.rope.n_dims / 2 > kMaxRopePairs ? fmt::format("rotation of {} elements", s.rope.n_dims)
                                             : weight(s.factors);
  }
  Name operator()(const StoreKv&) const { return {}; }
  Name operator()(const Attend& s) const {
    return s.head_size < kMinHeadSize || s.head_size > kMaxAnyKeySize || s.value_head() > kMaxAnyValueSize
               ? fmt::format("attention with keys of {} and values of {} elements", s.head_size, s.value_head())
               : weight(s.sinks);
  }
  Name operator()(const Activate&) const { return {}; }
  Name operator()(const Add&) const { return {}; }
  Name operator()(const Route& s) const {
    return s.n_experts > kMaxExperts || s.n_used > kMaxUsedExperts
               ? fmt::format("a choice of {} out of {} experts", s.n_used, s.n_experts)
           : s.n_groups > kMaxExpertGroups ? fmt::format("a choice among {} groups of experts", s.n_groups)
                                           : first_of({weight(s.bias), weight(s.expert_scale)});
  }
  Name operator()(const ExpertMatmul& s) const {
    Name name;
    for (const auto& part : s.parts) name = first_of({name, weight(part.weight.first), expert_bias(part.bias)});
    return name;
  }
  Name operator()(const ExpertCombine& s) const { return first_of({weight(s.weight.first), expert_bias(s.bias)}); }
  Name operator()(const TakeRows&) const { return {}; }
  Name operator()(const Temper&) const { return {}; }
  Name operator()(const Gate&) const { return {}; }
  Name operator()(const Scale& s) const {
    return weights.tensor(s.weight).shape.row_elements == 1 ? number(s.weight) : weight(s.weight);
  }
  Name operator()(const MixStreams&) const { return {}; }
  Name operator()(const MatchLength&) const { return {}; }
  Name operator()(const CutRow&) const { return {}; }
  Name operator()(const TakeColumns&) const { return {}; }
  Name operator()(const WeighExperts&) const { return {}; }
  Name operator()(const AttendBothWays& s) const {
    if (Name name = distance_biases(s); !name.empty()) return name;
    return std::max(s.head_size, s.value_size) > kMaxAttendTextsSize
               ? fmt::format("attention both ways with keys of {} and values of {} elements", s.head_size, s.value_size)
               : "";
  }
  // Biases that are not F32 are decoded into the memory of a vector.
  Name distance_biases(const AttendBothWays& s) const {
    if (!s.distance_biases) return {};
    const WeightShape& shape = weights.tensor(*s.distance_biases).shape;
    if (shape.n_rows < kMinDistanceBuckets || shape.n_rows > kMaxDistanceBuckets)
      return fmt::format("biases of {} buckets of distances", shape.n_rows);
    if (shape.dtype == DType::f32) return {};
    const bool is_float = shape.dtype == DType::f16 || shape.dtype == DType::bf16;
    return is_float && shape.n_rows <= s.head_size
               ? Name()
               : fmt::format("biases by distance of type {}", dtype_info(shape.dtype).name);
  }
  Name operator()(const Pool&) const { return {}; }
  Name operator()(const AddVector& s) const { return weight(s.weight); }
  Name operator()(const Convolve& s) const {
    return s.n_taps < 2 || s.n_taps > kMaxTaps ? fmt::format("convolutions of {} taps", s.n_taps)
                                               : numbers({s.weight, s.bias});
  }
  Name operator()(const Scan& s) const {
    return s.state_size > (s.by_element ? kMaxElementState : kMaxHeadState)
               ? fmt::format("scans with states of {} numbers", s.state_size)
               : numbers({s.step_bias, s.decay, s.skip});
  }
  Name operator()(const DeltaRule& s) const {
    return s.key_size > kMaxDeltaKey ? fmt::format("the delta rule with keys of {} elements", s.key_size)
                                     : numbers({s.step_bias, s.decay});
  }
  Name numbers(std::initializer_list<std::optional<WeightId>> ids) const {
    return std::ranges::all_of(ids, [&](auto id) { return !id || dtype(*id) == DType::f32; })
               ? Name()
               : "numbers of recurrent layers that are not F32";
  }
  template <class S>
    requires kIsFused<S>
  Name operator()(const S&) const {
    return "fused steps";
  }
};

}  // namespace

Result<void> check_supported(const Step& step, const WeightStore& weights) {
  const std::string missing = std::visit(Missing{weights}, step);
  if (missing.empty()) return {};
  return Error{ErrorCode::unsupported, fmt::format("gpu: {}: not on this device; use the CPU", missing)};
}

}  // namespace rocmforge::gpu
