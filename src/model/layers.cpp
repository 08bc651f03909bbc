#include "model/layers.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "model/recurrent.h"

namespace rocmforge {
namespace {

constexpr uint32_t kMaxHeads = 1'024;
constexpr uint32_t kMaxHeadSize = 1'024;

// One value for each layer. Only where the family's layers differ may the file's.
Result<std::vector<uint32_t>> counts(const Keys& keys, const Family& family, std::string_view key, uint32_t n_layers,
                                     uint32_t most) {
  if (family.layers_differ && keys.is_array(key)) return keys.per_layer(key, n_layers, most);
  return std::vector<uint32_t>(n_layers, TRY(keys.count(key, most)));
}

// With sections a pair's angle comes from one of four coordinates of its token.
Result<void> read_sections(const Keys& keys, Sections kind, RopeSpec& rope) {
  constexpr std::string_view kKey = "rope.dimension_sections";
  if (kind == Sections::none || (kind == Sections::optional && !keys.has(kKey))) return {};
  const std::vector<int32_t> sections = TRY(keys.i32_array(kKey));
  if (kind == Sections::optional && std::ranges::all_of(sections, [](int32_t n) { return n == 0; })) return {};
  const bool is_usable = (sections.size() == 3 || sections.size() == 4) && sections[0] > 0 && sections[1] > 0 &&
                         std::ranges::all_of(sections, [](int32_t n) { return n >= 0 && n <= 512; });
  if (!is_usable) {
    return Error{ErrorCode::model_unsupported,
                 fmt::format("model: key '{}': sections of {} pairs; there must be three or four, and some pairs in "
                             "the first two",
                             keys.full(kKey), fmt::join(sections, ", "))};
  }
  std::ranges::copy(sections, rope.sections.begin());
  rope.sections_by_turns = kind == Sections::by_turns;
  rope.pairs = RopePairs::halves;
  return {};
}

Result<RopeSpec> read_rope(const Keys& keys, const Family& family, uint32_t head_size) {
  RopeSpec rope;
  rope.pairs = family.rope_pairs;
  TRY(read_sections(keys, family.sections, rope));
  rope.n_dims = TRY(keys.count_or("rope.dimension_count", head_size, head_size));
  if (rope.n_dims % 2) return bad_key(keys.full("rope.dimension_count"), fmt::format("{} is odd", rope.n_dims));
  rope.base = TRY(keys.positive_or("rope.freq_base", 10000.0f));
  rope.attention_factor = TRY(keys.positive_or("rope.scaling.attn_factor", 1.0f));
  rope.original_context = TRY(keys.count_or("rope.scaling.original_context_length",
                                            TRY(keys.count("context_length", kMaxContext)), kMaxContext));
  // The older spelling of linear scaling is a bare factor.
  rope.factor = TRY(keys.positive_or("rope.scaling.factor", TRY(keys.positive_or("rope.scale_linear", 1.0f))));
  const std::string_view type = TRY(keys.string_or("rope.scaling.type", "linear"));
  if (type == "none" || type == "longrope") {
    rope.factor = 1.0f;  // longrope lies in factors of its own, one per pair
  } else if (type == "linear") {
    rope.scaling = rope.factor == 1.0f ? RopeScaling::none : RopeScaling::linear;
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::yarn;
    rope.beta_fast = TRY(keys.positive_or("rope.scaling.yarn_beta_fast", 32.0f));
    rope.beta_slow = TRY(keys.positive_or("rope.scaling.yarn_beta_slow", 1.0f));
  } else {
    return Error{
        ErrorCode::model_unsupported,
        fmt::format("model: key '{}': rope scaling '{}' is not supported; known are none, linear, yarn, longrope",
                    keys.full("rope.scaling.type"), printable(type, 64))};
  }
  return rope;
}

// Which layers have a window, where the model has windows: as the file lists them, or in periods.
Result<std::vector<uint32_t>> windowed_layers(const Keys& keys, const Family& family, uint32_t n_layers) {
  constexpr std::string_view kKey = "attention.sliding_window_pattern";
  if (keys.is_array(kKey) || (family.windows_are_listed && !keys.has(kKey))) return keys.per_layer(kKey, n_layers, 1);
  const uint32_t period = TRY(keys.count_or(kKey, family.window_period, kMaxLayers));
  std::vector<uint32_t> out(n_layers);
  for (uint32_t i = 0; i < n_layers; i++) {
    out[i] = family.window_order == WindowOrder::full_last ? i % period + 1 < period : i % period != 0;
  }
  return out;
}

Result<void> read_windows(const Keys& keys, const Family& family, ModelSpec& spec) {
  constexpr std::string_view kKey = "attention.sliding_window";
  if (family.ignores_window) keys.has(kKey);
  if (family.window_period == 0) return {};
  if (family.windows_are_listed && !keys.has(kKey)) return bad_key(keys.full(kKey), "is missing");
  if (TRY(keys.u32_or(kKey, family.window)) == 0) return {};
  const uint32_t window = TRY(keys.count_or(kKey, family.window, kMaxContext));
  const std::vector<uint32_t> is_windowed = TRY(windowed_layers(keys, family, spec.n_layers));
  for (uint32_t i = 0; i < spec.n_layers; i++) {
    if (is_windowed[i] == 0) continue;
    LayerSpec& layer = spec.layers[i];
    layer.window = window;
    layer.key_size = TRY(keys.count_or("attention.key_length_swa", layer.key_size, kMaxHeadSize));
    layer.value_size = TRY(keys.count_or("attention.value_length_swa", layer.value_size, kMaxHeadSize));
    RopeSpec& rope = layer.rope;
    rope.n_dims = std::min(rope.n_dims, layer.key_size);
    rope.n_dims = TRY(keys.count_or("rope.dimension_count_swa", rope.n_dims, layer.key_size));
    if (rope.n_dims % 2) return bad_key(keys.full("rope.dimension_count_swa"), fmt::format("{} is odd", rope.n_dims));
    const float base = family.window_rope_base > 0 ? family.window_rope_base : rope.base;
    rope.base = TRY(keys.positive_or("rope.freq_base_swa", base));
    if (family.window_rope_is_plain) {
      rope.scaling = RopeScaling::none;
      rope.factor = 1.0f;
      rope.attention_factor = 1.0f;
    }
  }
  return {};
}

Result<void> read_rope_layers(const Keys& keys, const Family& family, ModelSpec& spec) {
  const auto mark = [&](auto&& has_rope) {
    for (uint32_t i = 0; i < spec.n_layers; i++) spec.layers[i].has_rope = has_rope(i);
  };
  const bool has_windows = std::ranges::any_of(spec.layers, [](const LayerSpec& layer) { return layer.window > 0; });
  switch (family.rope_layers) {
    case RopeLayers::all:
      if (family.learned_positions) mark([](uint32_t) { return false; });
      break;
    case RopeLayers::none:
      mark([](uint32_t) { return false; });
      break;
    case RopeLayers::unless_not_finetuned: {
      const bool has_rope = TRY(keys.boolean_or("rope.scaling.finetuned", true));
      mark([=](uint32_t) { return has_rope; });
      break;
    }
    case RopeLayers::not_fourth:
      mark([](uint32_t i) { return (i + 1) % 4 != 0; });
      break;
    case RopeLayers::not_first_of_four:
      mark([](uint32_t i) { return i % 4 != 0; });
      break;
    case RopeLayers::windowed:
      if (has_windows) mark([&](uint32_t i) { return spec.layers[i].window > 0; });
      break;
    case RopeLayers::windowed_or_dense:
      mark([&](uint32_t i) { return spec.layers[i].window > 0 || spec.layers[i].feed_forward == FeedForward::dense; });
      break;
    case RopeLayers::listed:
      if (keys.has("attention.rope_pattern")) {
        const auto has_rope = TRY(keys.per_layer("attention.rope_pattern", spec.n_layers, 1));
        mark([&](uint32_t i) { return has_rope[i] != 0; });
      }
      break;
  }
  return {};
}

// A layer is a recurrent mixer alone: there are no heads, and no feed-forward.
Result<void> read_recurrent_layers(const Keys& keys, const Family& family, ModelSpec& spec) {
  for (uint32_t i = 0; i < spec.n_layers; i++) {
    spec.layers[i].cache = i;
    spec.layers[i].has_rope = false;
    spec.layers[i].feed_forward = FeedForward::none;
  }
  return read_recurrent(keys, family, spec);
}

}  // namespace

Result<void> read_layers(const Keys& keys, const Family& family, ModelSpec& spec) {
  const uint32_t n = spec.n_layers;
  spec.layers.resize(n);
  const bool attends = family.recurrent_layers != RecurrentLayers::all || has_attention(family.recurrent);
  if (!attends) return read_recurrent_layers(keys, family, spec);
  const auto n_heads = TRY(counts(keys, family, "attention.head_count", n, kMaxHeads));
  auto n_kv_heads = n_heads;
  if (keys.has("attention.head_count_kv")) {
    n_kv_heads = TRY(counts(keys, family, "attention.head_count_kv", n, kMaxHeads));
  }
  const auto ff_widths = TRY(counts(keys, family, "feed_forward_length", n, kMaxWidth));
  const uint32_t some_heads = std::max(1u, *std::ranges::max_element(n_heads));
  if (!keys.has("attention.key_length") && spec.width % some_heads) {
    return bad_key(keys.full("attention.head_count"),
                   fmt::format("{} does not divide the width {}", some_heads, spec.width));
  }
  const uint32_t key_size = TRY(keys.count_or("attention.key_length", spec.width / some_heads, kMaxHeadSize));
  const uint32_t value_size = TRY(keys.count_or("attention.value_length", key_size, kMaxHeadSize));
  const RopeSpec rope = TRY(read_rope(keys, family, key_size));
  const uint32_t n_dense = TRY(keys.u32_or("leading_dense_block_count", 0));
  for (uint32_t i = 0; i < n; i++) {
    LayerSpec& layer = spec.layers[i];
    layer.n_heads = n_heads[i];
    layer.n_kv_heads = n_kv_heads[i];
    layer.key_size = key_size;
    layer.value_size = value_size;
    layer.rope = rope;
    layer.cache = i;
    layer.ff_width = ff_widths[i];
    const bool has_experts = spec.experts.n_experts > 0 && i >= n_dense;
    layer.feed_forward = has_experts ? family.feed_forward : FeedForward::dense;
  }
  TRY(read_recurrent(keys, family, spec));
  TRY(read_windows(keys, family, spec));
  return read_rope_layers(keys, family, spec);
}

Result<void> check_layers(const Keys& keys, const ModelSpec& spec) {
  for (uint32_t i = 0; i < spec.n_layers; i++) {
    const LayerSpec& layer = spec.layers[i];
    const auto bad = [&](std::string_view key, uint32_t value, std::string_view fact) {
      return bad_key(keys.full(key), fmt::format("{} {} (layer {})", value, fact, i));
    };
    if (has_attention(layer.mixer)) {
      if (layer.n_heads == 0) return bad("attention.head_count", 0, "heads");
      if (layer.n_kv_heads == 0 || layer.n_heads % layer.n_kv_heads) {
        return bad("attention.head_count_kv", layer.n_kv_heads,
                   fmt::format("does not divide the {} heads", layer.n_heads));
      }
      if (layer.has_rope && (layer.rope.n_dims < 2 || layer.rope.n_dims % 2 || layer.rope.n_dims > layer.key_size)) {
        return bad("rope.dimension_count", layer.rope.n_dims, fmt::format("of {} elements", layer.key_size));
      }
    }
    if (layer.feed_forward != FeedForward::none && layer.ff_width == 0) {
      return bad("feed_forward_length", 0, "is not a width");
    }
  }
  return {};
}

}  // namespace rocmforge
