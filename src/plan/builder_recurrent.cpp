// Recurrent mixers: short convolutions, selective scans, gated delta rules. Their states are of a layer.

#include "plan/builder.h"

namespace rocmforge {

void PlanBuilder::recurrent(uint32_t i, SlotId in) {
  switch (is_->mixer) {
    case Mixer::convolution:
      return convolution(i, in);
    case Mixer::scan:
    case Mixer::attention_and_scan:
      return scan(i, in);
    case Mixer::delta:
      return delta(i, in);
    case Mixer::none:
    case Mixer::attention:
    case Mixer::matrix:
      break;
  }
}

// c o conv(b o x), where one product gives all three.
void PlanBuilder::convolution(uint32_t i, SlotId in) {
  const uint32_t n = spec_.recurrent.conv_width;
  const SlotId x = slot("conv in", n), gate = slot("conv gate", n);
  mix_gate_ = slot("mix gate", n);
  mixed_ = slot("mixed", n);
  emit(Matmul{
      in, {{*w_->mix_in_gate, std::nullopt, gate}, {*w_->mix_gate, std::nullopt, mix_gate_}, {*w_->mix_in, {}, x}}});
  emit(Gate{OutputGate::plain, x, gate, x});
  emit(Convolve{.layer = i, .n_taps = spec_.recurrent.n_taps, .in = x, .out = mixed_, .weight = *w_->conv});
}

void PlanBuilder::scan(uint32_t i, SlotId in) {
  const RecurrentSpec& r = spec_.recurrent;
  const SlotId x = slot("conv in", r.conv_width), convolved = slot("convolved", r.conv_width);
  mix_gate_ = slot("mix gate", r.inner());
  mixed_ = slot("mixed", r.inner());
  Scan scan{.layer = i,
            .state_at = r.conv_state(),
            .n_heads = r.n_heads,
            .head_size = r.head_size,
            .state_size = r.state_size,
            .n_groups = r.n_groups,
            .by_element = r.by_element,
            .x = {convolved},
            .out = mixed_,
            .step_bias = *w_->scan_step_bias,
            .decay = *w_->scan_decay,
            .skip = *w_->scan_skip};
  scan.step = slot("step", scan.n_steps());
  if (r.gate_by_head) {
    const SlotId both = slot("gate and in", 2 * r.inner());
    emit(product(in, both, w_->mix_in));
    emit(TakeColumns{both, mix_gate_, 0, 2 * r.head_size, r.head_size});
    emit(TakeColumns{both, x, r.head_size, 2 * r.head_size, r.head_size});
  } else {
    Matmul products{in, {{*w_->mix_gate, std::nullopt, mix_gate_}, {*w_->mix_in, std::nullopt, x}}};
    if (r.step_rank == 0) products.parts.push_back({*w_->scan_step, std::nullopt, scan.step});
    emit(std::move(products));
  }
  emit(Convolve{.layer = i,
                .n_taps = r.n_taps,
                .in = x,
                .out = convolved,
                .weight = *w_->conv,
                .bias = w_->conv_bias,
                .silu = true});
  if (r.step_rank == 0) {
    scan.b = {convolved, r.inner()};
    scan.c = {convolved, r.inner() + r.group_width()};
  } else {
    scan_steps(scan, convolved);
  }
  emit(scan);
}

// Steps, and what writes and reads states, from what was convolved.
void PlanBuilder::scan_steps(Scan& scan, SlotId from) {
  const RecurrentSpec& r = spec_.recurrent;
  const SlotId few = slot("few steps", r.step_rank), b = slot("scan b", r.state_size), c = slot("scan c", r.state_size);
  emit(Matmul{from,
              {{*w_->scan_step, std::nullopt, few}, {*w_->scan_b, std::nullopt, b}, {*w_->scan_c, std::nullopt, c}}});
  if (w_->scan_step_norm || r.norms_plain) emit(norm(few, few, w_->scan_step_norm));
  if (w_->scan_b_norm || r.norms_plain) emit(norm(b, b, w_->scan_b_norm));
  if (w_->scan_c_norm || r.norms_plain) emit(norm(c, c, w_->scan_c_norm));
  emit(product(few, scan.step, w_->scan_step_up));
  scan.b = {b};
  scan.c = {c};
}

void PlanBuilder::delta(uint32_t i, SlotId in) {
  const RecurrentSpec& r = spec_.recurrent;
  const SlotId x = slot("conv in", r.conv_width), convolved = slot("convolved", r.conv_width);
  mix_gate_ = slot("mix gate", r.inner());
  mixed_ = slot("mixed", r.inner());
  DeltaRule rule{.layer = i,
                 .state_at = r.conv_state(),
                 .n_heads = r.n_heads,
                 .head_size = r.head_size,
                 .n_key_heads = r.n_groups,
                 .key_size = r.state_size,
                 .alternates = r.alternates,
                 .epsilon = spec_.norm_epsilon,
                 .in = convolved,
                 .beta = slot("beta", r.n_heads),
                 .alpha = slot("alpha", r.n_heads),
                 .out = mixed_,
                 .step_bias = *w_->scan_step_bias,
                 .decay = *w_->scan_decay};
  delta_inputs(rule, x, in);
  emit(Convolve{.layer = i, .n_taps = r.n_taps, .in = x, .out = convolved, .weight = *w_->conv, .silu = true});
  emit(rule);
}

// In the first conversions everything of a key head lies together.
void PlanBuilder::delta_inputs(DeltaRule& rule, SlotId x, SlotId in) {
  const RecurrentSpec& r = spec_.recurrent;
  const uint32_t k = r.state_size, per_key = r.n_heads / r.n_groups, v = per_key * r.head_size;
  const SlotId all = w_->mix_gate ? x : slot("gate and in", r.conv_width + r.inner());
  const SlotId both = w_->beta_alpha ? slot("beta and alpha", 2 * r.n_heads) : rule.beta;
  Matmul products{in, {{*w_->mix_in, std::nullopt, all}}};
  if (w_->mix_gate) products.parts.push_back({*w_->mix_gate, std::nullopt, mix_gate_});
  emit(std::move(products));
  if (w_->beta_alpha) {
    emit(product(in, both, w_->beta_alpha));
    emit(TakeColumns{both, rule.beta, 0, 2 * per_key, per_key});
    emit(TakeColumns{both, rule.alpha, per_key, 2 * per_key, per_key});
  } else {
    emit(Matmul{in, {{*w_->beta, std::nullopt, rule.beta}, {*w_->alpha, std::nullopt, rule.alpha}}});
  }
  if (w_->mix_gate) return;
  const uint32_t period = 2 * k + 2 * v;
  emit(TakeColumns{all, x, 0, period, k});
  emit(TakeColumns{all, x, k, period, k, r.group_width()});
  emit(TakeColumns{all, x, 2 * k, period, v, 2 * r.group_width()});
  emit(TakeColumns{all, mix_gate_, 2 * k + v, period, v});
}

void PlanBuilder::mix_recurrent(SlotId out) {
  const RecurrentSpec& r = spec_.recurrent;
  switch (is_->mixer) {
    case Mixer::convolution:
      emit(Gate{OutputGate::plain, mixed_, mix_gate_, mixed_});
      break;
    case Mixer::delta:
      emit(norm(mixed_, mixed_, w_->mix_norm, std::nullopt, r.head_size));
      emit(Activate{Activation::silu, mix_gate_, mixed_, mixed_});
      break;
    default:
      emit(Activate{Activation::silu, mix_gate_, mixed_, mixed_});
      if (w_->mix_norm) emit(norm(mixed_, mixed_, w_->mix_norm, std::nullopt, r.inner() / r.n_groups));
      break;
  }
  emit(product(mixed_, out, w_->mix_output));
}

}  // namespace rocmforge
