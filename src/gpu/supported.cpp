#include "gpu/supported.h"

#include <fmt/core.h>

#include <algorithm>

namespace rocmforge::gpu {
namespace {

// The feature a step asks for and the kernels lack; empty when there is none.
struct MissingFeature {
  using Name = std::string_view;

  Name operator()(const Embed& s) const {
    return s.scale != 1 ? "scaled embeddings" : s.positions ? "learned positions" : Name();
  }
  Name operator()(const Norm& s) const { return s.group != 0 ? "norms of single heads" : Name(); }
  Name operator()(const Matmul& s) const { return s.scale != 1 || s.softcap != 0 ? "scaled or capped logits" : Name(); }
  Name operator()(const Rope&) const { return {}; }
  Name operator()(const StoreKv&) const { return {}; }
  Name operator()(const Attend& s) const {
    return s.window != 0    ? "attention windows"
           : s.softcap != 0 ? "capped attention"
           : s.sinks        ? "attention sinks"
                            : Name();
  }
  Name operator()(const Activate& s) const {
    return s.kind == Activation::clamped_swish ? "clamped swish" : !s.gated ? "feed-forward without a gate" : Name();
  }
  Name operator()(const Add& s) const { return s.scale != 1 ? "scaled residuals" : Name(); }
  Name operator()(const Route& s) const {
    return s.gating != Gating::softmax || s.bias || s.scale != 1 ? "this kind of expert routing" : Name();
  }
  Name operator()(const ExpertMatmul& s) const {
    return std::ranges::any_of(s.parts, [](const auto& part) { return part.bias.has_value(); }) ? "biases of experts"
                                                                                                : Name();
  }
  Name operator()(const ExpertCombine& s) const { return s.bias ? "biases of experts" : Name(); }
  Name operator()(const TakeRows&) const { return {}; }
};

}  // namespace

Result<void> check_supported(const Step& step) {
  const std::string_view missing = std::visit(MissingFeature{}, step);
  if (missing.empty()) return {};
  return Error{ErrorCode::unsupported,
               fmt::format("gpu: {} cannot be computed on this device yet; use the CPU", missing)};
}

}  // namespace rocmforge::gpu
