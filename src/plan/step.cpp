#include "plan/step.h"

#include <algorithm>

namespace rocmforge {
namespace {

// Of a step that is not fused: calls `put` with every slot and its use.
struct NamedSlots {
  const std::function<void(SlotId, SlotUse)>& put;

  void read(SlotId id) const { put(id, SlotUse::read); }
  void written(SlotId id) const { put(id, SlotUse::written); }
  void updated(SlotId id) const { put(id, SlotUse::updated); }

  void operator()(const Embed& s) const { written(s.out); }
  void operator()(const Norm& s) const { read(s.in), written(s.out); }
  void operator()(const Matmul& s) const {
    read(s.in);
    for (const auto& part : s.parts) written(part.out);
  }
  void operator()(const Rope& s) const { updated(s.q), updated(s.k); }
  void operator()(const StoreKv& s) const { read(s.k), read(s.v); }
  void operator()(const Attend& s) const { read(s.q), written(s.out); }
  void operator()(const Activate& s) const {
    read(s.gate);
    if (s.gated) read(s.up);
    written(s.out);
  }
  void operator()(const Add& s) const { read(s.in), updated(s.out); }
  void operator()(const Route& s) const { read(s.logits), written(s.out); }
  void operator()(const ExpertMatmul& s) const {
    read(s.in), read(s.routing);
    for (const auto& part : s.parts) written(part.out);
  }
  void operator()(const ExpertCombine& s) const { read(s.in), read(s.routing), written(s.out); }
  void operator()(const TakeRows& s) const { read(s.in), written(s.out); }
  void operator()(const Temper& s) const { updated(s.slot); }
  void operator()(const Gate& s) const { read(s.in), read(s.gate), written(s.out); }
  void operator()(const Scale& s) const { updated(s.slot); }
  void operator()(const TakeColumns& s) const { read(s.in), s.period == 0 ? written(s.out) : updated(s.out); }
  void operator()(const WeighExperts& s) const {
    updated(s.routing);
    for (const SlotId id : s.slots) updated(id);
  }
  void operator()(const Convolve& s) const { read(s.in), written(s.out); }
  void operator()(const Scan& s) const { read(s.x.slot), read(s.b.slot), read(s.c.slot), read(s.step), written(s.out); }
  void operator()(const DeltaRule& s) const { read(s.in), read(s.beta), read(s.alpha), written(s.out); }
  void operator()(const AttendBothWays& s) const { read(s.q), read(s.k), read(s.v), written(s.out); }
  void operator()(const Pool& s) const { read(s.in), written(s.out); }
  void operator()(const AddVector& s) const { updated(s.slot); }
  void operator()(const MixStreams& s) const {
    read(s.in);
    if (s.coefficients) read(*s.coefficients);
    written(s.out);
  }
  void operator()(const MatchLength& s) const { read(s.like), updated(s.slot); }
  void operator()(const CutRow& s) const { updated(s.slot); }
};

struct NamedWeights {
  std::vector<WeightId>& out;

  void put(std::optional<WeightId> id) const {
    if (id && std::find(out.begin(), out.end(), *id) == out.end()) out.push_back(*id);
  }
  void operator()(const Embed& s) const { put(s.table), put(s.positions); }
  void operator()(const Norm& s) const { put(s.weight), put(s.bias); }
  void operator()(const Matmul& s) const {
    for (const auto& part : s.parts) put(part.weight), put(part.bias), put(part.scale);
  }
  void operator()(const Rope& s) const { put(s.factors); }
  void operator()(const StoreKv&) const {}
  void operator()(const Attend& s) const { put(s.sinks); }
  void operator()(const Activate&) const {}
  void operator()(const Add&) const {}
  void operator()(const Route& s) const { put(s.bias), put(s.expert_scale); }
  void operator()(const ExpertMatmul& s) const {
    for (const auto& part : s.parts) put(part.bias);
  }
  void operator()(const ExpertCombine& s) const { put(s.bias); }
  void operator()(const TakeRows&) const {}
  void operator()(const Temper&) const {}
  void operator()(const Gate&) const {}
  void operator()(const Scale& s) const { put(s.weight); }
  void operator()(const TakeColumns&) const {}
  void operator()(const WeighExperts&) const {}
  void operator()(const Convolve& s) const { put(s.weight), put(s.bias); }
  void operator()(const Scan& s) const { put(s.step_bias), put(s.decay), put(s.skip); }
  void operator()(const DeltaRule& s) const { put(s.step_bias), put(s.decay); }
  void operator()(const AttendBothWays& s) const { put(s.distance_biases); }
  void operator()(const Pool&) const {}
  void operator()(const AddVector& s) const { put(s.weight); }
  void operator()(const MixStreams&) const {}
  void operator()(const MatchLength&) const {}
  void operator()(const CutRow&) const {}
};

}  // namespace

void each_slot(const Step& step, const std::function<void(SlotId, SlotUse)>& put) {
  each_part(step, NamedSlots{put});
}

// Of a fused step a part may read what one before it wrote.
bool reads(const Step& step, SlotId id) {
  bool is_read = false, is_written = false;
  each_part(step, [&](const auto& part) {
    bool writes_it = false;
    NamedSlots{[&](SlotId named, SlotUse use) {
      if (named != id) return;
      is_read = is_read || (!is_written && use != SlotUse::written);
      writes_it = writes_it || use != SlotUse::read;
    }}(part);
    is_written = is_written || writes_it;
  });
  return is_read;
}

bool writes(const Step& step, SlotId id) {
  bool is_written = false;
  each_slot(step, [&](SlotId named, SlotUse use) { is_written = is_written || (named == id && use != SlotUse::read); });
  return is_written;
}

bool is_wanted(SlotId id, std::span<const Step> steps) {
  for (const Step& step : steps) {
    if (reads(step, id)) return true;
    if (writes(step, id)) return false;
  }
  return false;
}

void add_weights(const Step& step, std::vector<WeightId>& out) {
  each_part(step, NamedWeights{out});
}

}  // namespace rocmforge
