#include "model/recurrent.h"

#include <fmt/core.h>

#include <algorithm>

#include "model/layers.h"

namespace rocmforge {
namespace {

constexpr uint32_t kMaxTaps = 64;
constexpr uint32_t kMaxStateSize = 1'024;
constexpr uint32_t kMaxStateHeads = 4'096;
constexpr uint64_t kMaxState = 1ull << 28;  // elements of a layer's

Result<std::vector<bool>> recurrent_layers(const Keys& keys, const Family& family, const ModelSpec& spec) {
  const uint32_t n = spec.n_layers;
  std::vector<bool> out(n, family.recurrent_layers == RecurrentLayers::all);
  const auto mark = [&](auto&& is) {
    for (uint32_t i = 0; i < n; i++) out[i] = is(i);
  };
  switch (family.recurrent_layers) {
    case RecurrentLayers::none:
    case RecurrentLayers::all:
      break;
    case RecurrentLayers::without_kv_heads:
      mark([&](uint32_t i) { return spec.layers[i].n_kv_heads == 0; });
      break;
    case RecurrentLayers::single_blocks:
      mark([&](uint32_t i) { return spec.layers[i].n_kv_heads == 0 && spec.layers[i].ff_width == 0; });
      break;
    case RecurrentLayers::interval: {
      constexpr std::string_view kKey = "attention.recurrent_layers";
      if (keys.has(kKey)) {
        const auto listed = TRY(keys.per_layer(kKey, n, 1));
        mark([&](uint32_t i) { return listed[i] != 0; });
        break;
      }
      const uint32_t interval = TRY(keys.count_or("full_attention_interval", 4, kMaxLayers));
      mark([&](uint32_t i) { return (i + 1) % interval != 0; });
      break;
    }
  }
  return out;
}

// A layer is either a mixer or a feed-forward.
void split_blocks(ModelSpec& spec) {
  for (LayerSpec& layer : spec.layers) {
    if (layer.mixer == Mixer::attention && layer.n_kv_heads == 0) {
      layer.mixer = Mixer::none;
    } else {
      layer.feed_forward = FeedForward::none;
    }
  }
}

Result<uint32_t> read_taps(const Keys& keys, std::string_view key) {
  const uint32_t n = TRY(keys.count(key, kMaxTaps));
  if (n < 2) return bad_key(keys.full(key), fmt::format("{} taps", n));
  return n;
}

Result<void> divide_into_heads(const Keys& keys, uint32_t inner, RecurrentSpec& sizes) {
  sizes.n_heads = TRY(keys.count("ssm.time_step_rank", kMaxStateHeads));
  if (inner % sizes.n_heads) {
    return bad_key(keys.full("ssm.time_step_rank"), fmt::format("{} heads of {} elements", sizes.n_heads, inner));
  }
  sizes.head_size = inner / sizes.n_heads;
  return {};
}

Result<void> read_groups(const Keys& keys, RecurrentSpec& sizes) {
  sizes.n_groups = TRY(keys.count("ssm.group_count", sizes.n_heads));
  if (sizes.n_heads % sizes.n_groups) {
    return bad_key(keys.full("ssm.group_count"), fmt::format("{} groups of {} heads", sizes.n_groups, sizes.n_heads));
  }
  return {};
}

Result<void> read_heads(const Keys& keys, const Family& family, uint32_t width, RecurrentSpec& sizes) {
  const uint32_t inner = TRY(keys.count("ssm.inner_size", kMaxWidth));
  sizes.state_size = TRY(keys.count("ssm.state_size", kMaxStateSize));
  sizes.n_groups = 1;
  sizes.conv_width = inner;
  switch (family.scan_steps) {
    case ScanSteps::by_head:
      TRY(divide_into_heads(keys, inner, sizes));
      TRY(read_groups(keys, sizes));
      sizes.conv_width += 2 * sizes.group_width();
      break;
    case ScanSteps::by_head_from_few:  // how many is in no key
      TRY(divide_into_heads(keys, inner, sizes));
      sizes.step_rank = std::max(64u, width / 16);
      sizes.gate_by_head = true;
      break;
    case ScanSteps::by_element:
      sizes.n_heads = 1;
      sizes.head_size = inner;
      sizes.by_element = true;
      sizes.step_rank = TRY(keys.count("ssm.time_step_rank", kMaxWidth));
      sizes.norms_plain = TRY(keys.boolean_or("ssm.dt_b_c_rms", false));
      break;
  }
  return {};
}

Result<void> read_sizes(const Keys& keys, const Family& family, ModelSpec& spec) {
  RecurrentSpec& sizes = spec.recurrent;
  if (family.recurrent == Mixer::convolution) {
    sizes.n_taps = TRY(read_taps(keys, "shortconv.l_cache"));
    sizes.conv_width = spec.width;
    return {};
  }
  sizes.n_taps = TRY(read_taps(keys, "ssm.conv_kernel"));
  TRY(read_heads(keys, family, spec.width, sizes));
  sizes.alternates = family.groups_alternate;
  if (family.recurrent == Mixer::delta && sizes.head_size != sizes.state_size) {
    return bad_key(keys.full("ssm.state_size"),
                   fmt::format("{}, with value heads of {} elements", sizes.state_size, sizes.head_size));
  }
  if (uint64_t{sizes.inner()} * sizes.state_size > kMaxState ||
      uint64_t{sizes.n_groups} * sizes.state_size > kMaxWidth) {
    return bad_key(keys.full("ssm.state_size"),
                   fmt::format("{}, for {} elements in {} groups", sizes.state_size, sizes.inner(), sizes.n_groups));
  }
  return {};
}

}  // namespace

Result<void> read_recurrent(const Keys& keys, const Family& family, ModelSpec& spec) {
  if (family.recurrent_layers == RecurrentLayers::none) return {};
  const std::vector<bool> is_recurrent = TRY(recurrent_layers(keys, family, spec));
  for (uint32_t i = 0; i < spec.n_layers; i++) {
    if (is_recurrent[i]) spec.layers[i].mixer = family.recurrent;
  }
  if (family.recurrent_layers == RecurrentLayers::single_blocks) split_blocks(spec);
  return read_sizes(keys, family, spec);
}

}  // namespace rocmforge
