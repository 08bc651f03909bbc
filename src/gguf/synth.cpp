#include "gguf/synth.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/check.h"
#include "gguf/random_blocks.h"
#include "gguf/synth_vocabulary.h"
#include "gguf/writer.h"

namespace rocmforge::gguf {
namespace {

constexpr size_t kPoolBytes = 4u << 20;

HeaderBuilder make_header(const Shape& s, const Mix& mix) {
  HeaderBuilder header;
  header.set_string("general.architecture", s.architecture);
  header.set_string("general.name", fmt::format("synth-{}", s.name));
  header.set_u32("general.file_type", mix.file_type);
  header.set_u32("general.quantization_version", 2);
  const auto key = [&](std::string_view name) { return fmt::format("{}.{}", s.architecture, name); };
  header.set_u32(key("context_length"), s.context_length);
  header.set_u32(key("embedding_length"), s.width);
  header.set_u32(key("block_count"), s.n_layers);
  header.set_u32(key("attention.head_count"), s.n_heads);
  header.set_u32(key("attention.key_length"), s.head_size);
  header.set_u32(key("attention.value_length"), s.head_size);
  if (s.is_bert()) {
    header.set_f32(key("attention.layer_norm_epsilon"), 1e-12f);
    header.set_bool(key("attention.causal"), false);
    header.set_u32("tokenizer.ggml.token_type_count", 2);
  } else {
    header.set_f32(key("attention.layer_norm_rms_epsilon"), s.architecture == "llama" ? 1e-5f : 1e-6f);
    header.set_f32(key("rope.freq_base"), s.rope_base);
  }
  if (s.pooling_type != 0) header.set_u32(key("pooling_type"), s.pooling_type);
  header.set_u32(key("vocab_size"), s.n_vocabulary);
  if (s.n_experts > 0) {
    header.set_u32(key("expert_count"), s.n_experts);
    header.set_u32(key("expert_used_count"), s.n_experts_used);
    header.set_u32(key("expert_feed_forward_length"), s.ff_width);
  }
  if (s.mixed != nullptr) {
    set_mixed_keys(header, s);
  } else {
    header.set_u32(key("feed_forward_length"), s.ff_width * std::max(1u, s.n_experts_used));
    header.set_u32(key("attention.head_count_kv"), s.n_kv_heads);
    if (!s.is_bert()) header.set_u32(key("rope.dimension_count"), s.head_size);
  }
  if (s.architecture.starts_with("qwen")) {
    add_bpe_vocabulary(header, s.n_vocabulary);
  } else if (s.is_bert()) {
    add_wpm_vocabulary(header, s.n_vocabulary);
  } else {
    add_spm_vocabulary(header, s.n_vocabulary);
  }
  return header;
}

std::vector<DType> tensor_types(std::span<const ShapeTensor> tensors, const Shape& shape, const Mix& mix, bool pure) {
  std::vector<MixTensor> asked;
  for (const ShapeTensor& tensor : tensors) {
    MixTensor& t = asked.emplace_back(MixTensor{tensor.name});
    std::ranges::copy(tensor.dims, t.dims.begin());
  }
  const MixModel model{shape.n_layers, shape.n_experts, shape.n_heads / shape.n_kv_heads};
  std::vector<DType> out;
  for (const auto& type : plan_mix(mix, model, asked, pure)) out.push_back(type.value_or(DType::f32));
  return out;
}

// What all elements are, where they are not random. A decay that grows would overflow.
std::optional<float> constant_of(ShapeTensor::Kind kind) {
  switch (kind) {
    case ShapeTensor::Kind::norm:
      return 1.0f;
    case ShapeTensor::Kind::decay:
      return -1.0f;
    case ShapeTensor::Kind::matrix:
    case ShapeTensor::Kind::bias:
    case ShapeTensor::Kind::router:
      return std::nullopt;
  }
  RF_UNREACHABLE("gguf: the kind of a tensor");
}

// Pieces of a few megabytes of random blocks, made once per type. A tensor is the pool from a random place on, over
// and over: an odd number of blocks shares no factor with the blocks of a row, so rows meet it shifted.
class Pools {
 public:
  explicit Pools(RandomBits& random) : random_(random) {}

  Result<void> write_tensor(GgufWriter& writer, DType dtype, uint64_t n_bytes) {
    const std::vector<std::byte>& pool = of(dtype);
    const uint64_t block_bytes = dtype_info(dtype).block_bytes;
    uint64_t at = random_.below(pool.size() / block_bytes) * block_bytes;
    while (n_bytes > 0) {
      const uint64_t n = std::min<uint64_t>(n_bytes, pool.size() - at);
      TRY(writer.write(std::span(pool).subspan(at, n)));
      n_bytes -= n;
      at = 0;
    }
    return {};
  }

 private:
  const std::vector<std::byte>& of(DType dtype) {
    const auto [found, is_new] = pools_.try_emplace(dtype);
    if (is_new) found->second = random_blocks(dtype, kPoolBytes / dtype_info(dtype).block_bytes | 1, random_);
    return found->second;
  }

  RandomBits& random_;
  std::map<DType, std::vector<std::byte>> pools_;
};

}  // namespace

Result<SynthReport> synthesize(const std::string& path, const Shape& shape, const Mix& mix, const SynthOptions& options,
                               const std::function<void(uint64_t)>& progress) {
  const std::vector<ShapeTensor> tensors = shape_tensors(shape);
  const std::vector<DType> types = tensor_types(tensors, shape, mix, options.pure);
  HeaderBuilder header = make_header(shape, mix);
  for (size_t t = 0; t < tensors.size(); t++) header.add_tensor(tensors[t].name, types[t], tensors[t].dims);

  GgufWriter writer = TRY(GgufWriter::create(path, header, options.output));
  const SynthReport report{tensors.size(), writer.file_bytes()};
  if (options.sparse) {
    TRY(writer.finish_sparse());
    return report;
  }
  RandomBits random(options.seed);
  Pools pools(random);
  for (size_t t = 0; t < tensors.size(); t++) {
    const TensorInfo& info = writer.tensors()[t];
    if (const auto value = constant_of(tensors[t].kind)) {
      const std::vector<float> values(info.n_elements, *value);
      TRY(writer.write(std::as_bytes(std::span(values))));
    } else {
      TRY(pools.write_tensor(writer, types[t], info.n_bytes));
    }
    if (progress) progress(info.offset + info.n_bytes);
  }
  TRY(writer.finish());
  return report;
}

}  // namespace rocmforge::gguf
