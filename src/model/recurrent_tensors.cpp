// The tensors of recurrent mixers.

#include <fmt/core.h>

#include "model/binder.h"

namespace rocmforge {
namespace {

class RecurrentBinder {
 public:
  RecurrentBinder(Binder& bind, const ModelSpec& spec, uint32_t layer, LayerWeights<TensorRef>& to)
      : bind_(bind), sizes_(spec.recurrent), width_(spec.width), layer_(layer), w_(to) {}

  void convolution() {
    const TensorRef in = require("shortconv.in_proj.weight", {width_, 3 * width_});
    w_.mix_in_gate = rows_of(in, 0, width_, "b");
    w_.mix_gate = rows_of(in, width_, width_, "c");
    w_.mix_in = rows_of(in, 2 * width_, width_, "x");
    w_.conv = vector("shortconv.conv.weight", {sizes_.n_taps, sizes_.conv_width});
    w_.mix_output = require("shortconv.out_proj.weight", {width_, width_});
  }

  void scan() {
    const uint64_t inner = sizes_.inner(), n = sizes_.state_size, n_heads = sizes_.n_heads;
    convolve();
    w_.conv_bias = find("ssm_conv1d.bias", {sizes_.conv_width});
    if (sizes_.step_rank == 0) {
      const uint64_t all = inner + sizes_.conv_width + n_heads;
      const TensorRef in = require("ssm_in.weight", {width_, all});
      w_.mix_gate = rows_of(in, 0, inner, "z");
      w_.mix_in = rows_of(in, inner, sizes_.conv_width, "x");
      w_.scan_step = rows_of(in, inner + sizes_.conv_width, n_heads, "dt");
    } else {
      const TensorRef in = require("ssm_in.weight", {width_, 2 * inner});
      if (sizes_.gate_by_head) {
        w_.mix_in = in;
      } else {
        w_.mix_in = rows_of(in, 0, inner, "x");
        w_.mix_gate = rows_of(in, inner, inner, "z");
      }
      steps_from_few();
    }
    const uint64_t n_steps = sizes_.by_element ? inner : n_heads;
    w_.scan_step_bias = vector("ssm_dt.bias", {n_steps});
    w_.scan_decay = sizes_.by_element ? vector("ssm_a", {n, inner}) : numbers("ssm_a", n_heads);
    w_.scan_skip = numbers("ssm_d", n_steps);
    const uint64_t groups = sizes_.n_groups;
    if (bind_.has(name("ssm_norm.weight"))) w_.mix_norm = vector("ssm_norm.weight", {inner / groups, groups});
    w_.mix_output = require("ssm_out.weight", {inner, width_});
  }

  void delta() {
    const uint64_t inner = sizes_.inner(), n_heads = sizes_.n_heads;
    convolve();
    if (bind_.has(name("ssm_in.weight"))) {
      // The first conversions: everything of a key head together.
      w_.mix_in = require("ssm_in.weight", {width_, sizes_.conv_width + inner});
    } else {
      w_.mix_in = require("attn_qkv.weight", {width_, sizes_.conv_width});
      w_.mix_gate = require("attn_gate.weight", {width_, inner});
    }
    if (bind_.has(name("ssm_ba.weight"))) {
      w_.beta_alpha = require("ssm_ba.weight", {width_, 2 * n_heads});
    } else {
      w_.beta = require("ssm_beta.weight", {width_, n_heads});
      w_.alpha = require("ssm_alpha.weight", {width_, n_heads});
    }
    w_.scan_step_bias = vector("ssm_dt.bias", {n_heads});
    w_.scan_decay = numbers("ssm_a", n_heads);
    w_.mix_norm = vector("ssm_norm.weight", {sizes_.head_size});
    w_.mix_output = require("ssm_out.weight", {inner, width_});
  }

 private:
  std::string name(std::string_view rest) const { return fmt::format("blk.{}.{}", layer_, rest); }
  TensorRef require(std::string_view rest, Dims dims) { return bind_.require(name(rest), dims); }
  std::optional<TensorRef> find(std::string_view rest, Dims dims) { return bind_.find(name(rest), dims); }
  TensorRef vector(std::string_view rest, Dims dims) { return bind_.require_vector(name(rest), dims); }

  // One number for each, in a row or in a column.
  TensorRef numbers(std::string_view rest, uint64_t n) {
    return n > 1 && bind_.has_rows(name(rest), n) ? vector(rest, {1, n}) : vector(rest, {n});
  }

  void convolve() { w_.conv = vector("ssm_conv1d.weight", {sizes_.n_taps, sizes_.conv_width}); }

  // From what was convolved: few numbers, of which steps are made, and what writes and reads states.
  void steps_from_few() {
    const uint64_t inner = sizes_.inner(), n = sizes_.state_size, rank = sizes_.step_rank;
    const uint64_t n_steps = sizes_.by_element ? inner : sizes_.n_heads;
    const TensorRef all = require("ssm_x.weight", {inner, rank + 2 * n});
    if (sizes_.gate_by_head) {
      w_.scan_b = rows_of(all, 0, n, "b");
      w_.scan_c = rows_of(all, n, n, "c");
      w_.scan_step = rows_of(all, 2 * n, rank, "dt");
    } else {
      w_.scan_step = rows_of(all, 0, rank, "dt");
      w_.scan_b = rows_of(all, rank, n, "b");
      w_.scan_c = rows_of(all, rank + n, n, "c");
    }
    w_.scan_step_norm = norm("ssm_dt_norm", rank);
    w_.scan_b_norm = norm("ssm_b_norm", n);
    w_.scan_c_norm = norm("ssm_c_norm", n);
    w_.scan_step_up = require("ssm_dt.weight", {rank, n_steps});
  }

  // Some families leave ".weight" out.
  std::optional<TensorRef> norm(const char* rest, uint64_t n) {
    const auto usual = find(fmt::format("{}.weight", rest), {n});
    return usual ? usual : find(rest, {n});
  }

  Binder& bind_;
  const RecurrentSpec& sizes_;
  uint64_t width_;
  uint32_t layer_;
  LayerWeights<TensorRef>& w_;
};

}  // namespace

void bind_recurrent(Binder& bind, const ModelSpec& spec, uint32_t layer, LayerWeights<TensorRef>& to) {
  RecurrentBinder binder(bind, spec, layer, to);
  switch (spec.layers[layer].mixer) {
    case Mixer::convolution:
      return binder.convolution();
    case Mixer::scan:
    case Mixer::attention_and_scan:
      return binder.scan();
    case Mixer::delta:
      return binder.delta();
    case Mixer::none:
    case Mixer::attention:
    case Mixer::matrix:
      break;
  }
}

}  // namespace rocmforge
