#include "gguf/quantize.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/thread_pool.h"
#include "gguf/format.h"
#include "gguf/reader.h"
#include "gguf/writer.h"
#include "tensor/codec.h"

namespace rocmforge::gguf {
namespace {

// Powers of two, so that every format's block divides them.
constexpr uint64_t kPieceElements = uint64_t{1} << 22;  // read, encoded and written at once
constexpr uint64_t kShareElements = uint64_t{1} << 16;  // decoded and compared by one thread at once
constexpr uint64_t kCopyBytes = uint64_t{4} << 20;

constexpr float kSurelyInRange = 60'000;  // every format has room for this: scales are f16 at the least

// A number of the model's; of a list with one per layer, the first.
uint32_t number_or(const Metadata& metadata, const std::string& key, uint32_t fallback) {
  const Value* value = metadata.find(key);
  if (!value || value->n_elements() == 0 || value->as_strings()) return fallback;
  const Value first = value->type() == ValueType::array ? value->element(0) : *value;
  const auto number = first.as_u64();
  return number && *number <= UINT32_MAX ? static_cast<uint32_t>(*number) : fallback;
}

MixModel model_facts(const Metadata& metadata) {
  const Value* name = metadata.find("general.architecture");
  const std::string prefix = std::string(name ? name->as_string().value_or("") : "") + ".";
  const uint32_t n_heads = number_or(metadata, prefix + "attention.head_count", 1);
  const uint32_t n_kv_heads = number_or(metadata, prefix + "attention.head_count_kv", n_heads);
  return {.n_layers = number_or(metadata, prefix + "block_count", 0),
          .n_experts = number_or(metadata, prefix + "expert_count", 0),
          .heads_per_kv_head = n_kv_heads == 0 ? 0 : n_heads / n_kv_heads};
}

bool is_quantized(DType dtype) {
  return dtype_info(dtype).block_elements > 1;
}

uint64_t bytes_of(DType dtype, uint64_t n_elements) {
  return n_elements / dtype_info(dtype).block_elements * dtype_info(dtype).block_bytes;
}

Error about(const TensorInfo& tensor, ErrorCode code, std::string fact) {
  return {code, fmt::format("gguf: tensor {}: {}", in_quotes(tensor.name), fact)};
}

// The type each tensor will have; its own for one that is copied.
Result<std::vector<DType>> plan_types(const GgufFile& file, const Mix& mix, const QuantizeOptions& options) {
  std::vector<MixTensor> asked;
  for (const TensorInfo& tensor : file.tensors()) asked.push_back({tensor.name, tensor.dims});
  const auto planned = plan_mix(mix, model_facts(file.metadata()), asked, options.pure);
  std::vector<DType> types;
  for (size_t t = 0; t < asked.size(); t++) {
    const TensorInfo& tensor = file.tensors()[t];
    const DType type = planned[t].value_or(tensor.dtype);
    types.push_back(type);
    if (type == tensor.dtype) continue;
    const DTypeInfo& info = dtype_info(tensor.dtype);
    if (info.use != DTypeUse::weight) {
      return about(tensor, ErrorCode::unsupported, fmt::format("{} is no type of weights", info.name));
    }
    if (is_quantized(tensor.dtype) && !options.allow_requantize) {
      return about(tensor, ErrorCode::unsupported,
                   fmt::format("quantized already, as {}: quantizing again loses accuracy; --allow-requantize does it",
                               info.name));
    }
    if (!can_encode(type)) {
      return about(tensor, ErrorCode::unsupported, fmt::format("there is no encoder for {}", dtype_info(type).name));
    }
  }
  return types;
}

// Moves tensors from one file to the other, a piece at a time, and measures what is lost on the way.
class Converter {
 public:
  Converter(const GgufFile& from, GgufWriter& to, size_t n_threads) : from_(from), to_(to), pool_(n_threads) {}

  Result<void> copy(const TensorInfo& tensor) {
    for (uint64_t at = 0; at < tensor.n_bytes;) {
      raw_.resize(std::min(kCopyBytes, tensor.n_bytes - at));
      TRY(from_.file(tensor.shard).read_at(raw_, tensor.offset + at));
      TRY(to_.write(raw_));
      at += raw_.size();
    }
    return {};
  }

  // Calls done(n) after each piece of n weights.
  template <class Done>
  Result<void> convert(const TensorInfo& tensor, DType type, Done&& done) {
    for (uint64_t at = 0; at < tensor.n_elements;) {
      const uint64_t n = std::min(kPieceElements, tensor.n_elements - at);
      TRY(read_piece(tensor, at, n));
      encoded_.resize(bytes_of(type, n));
      TRY(encode(encoded_, type, weights_, n, pool_));  // blocks know no rows
      TRY(compare_piece(tensor, type, at));
      TRY(to_.write(encoded_));
      at += n;
      done(n);
    }
    return {};
  }

  double relative_error() const { return sum_squares_ > 0 ? std::sqrt(sum_differences_ / sum_squares_) : 0; }

 private:
  struct Share {
    double sum_squares = 0;
    double sum_differences = 0;
    std::optional<uint64_t> bad;  // the first weight that cannot be converted
  };

  // Calls work(share, first, n) for every share of the piece, on all threads.
  template <class Work>
  void for_shares(Work&& work) {
    const uint64_t n_total = weights_.size();
    shares_.assign((n_total + kShareElements - 1) / kShareElements, {});
    pool_.run(shares_.size(), [&](size_t i) {
      const uint64_t first = i * kShareElements;
      work(shares_[i], first, std::min(kShareElements, n_total - first));
    });
  }

  Result<void> check_shares(const TensorInfo& tensor, uint64_t at, std::string_view fault) const {
    for (const Share& share : shares_) {
      if (share.bad) {
        return about(tensor, ErrorCode::out_of_range,
                     fmt::format("weight {} is {}: {}", at + *share.bad, weights_[*share.bad], fault));
      }
    }
    return {};
  }

  // Fills weights_ with n weights from the at-th on.
  Result<void> read_piece(const TensorInfo& tensor, uint64_t at, uint64_t n) {
    raw_.resize(bytes_of(tensor.dtype, n));
    TRY(from_.file(tensor.shard).read_at(raw_, tensor.offset + bytes_of(tensor.dtype, at)));
    weights_.resize(n);
    for_shares([&](Share& share, uint64_t first, uint64_t n_share) {
      const auto to = std::span(weights_).subspan(first, n_share);
      decode(to, tensor.dtype,
             std::span<const std::byte>(raw_).subspan(bytes_of(tensor.dtype, first), bytes_of(tensor.dtype, n_share)));
      const auto bad = std::ranges::find_if_not(to, [](float w) { return std::isfinite(w); });
      if (bad != to.end()) share.bad = first + static_cast<uint64_t>(bad - to.begin());
    });
    return check_shares(tensor, at, "only finite weights can be converted");
  }

  // Decodes what was encoded and adds up the error. Encoders saturate: a weight beyond a format's range would go unseen
  // until a model talks nonsense, so the largest must still be large.
  Result<void> compare_piece(const TensorInfo& tensor, DType type, uint64_t at) {
    for_shares([&](Share& share, uint64_t first, uint64_t n_share) {
      std::vector<float> back(n_share);
      decode(back, type, std::span<const std::byte>(encoded_).subspan(bytes_of(type, first), bytes_of(type, n_share)));
      uint64_t largest = 0;
      float largest_back = 0;
      for (uint64_t i = 0; i < n_share; i++) {
        const float weight = weights_[first + i];
        const double difference = double{back[i]} - weight;
        share.sum_squares += double{weight} * weight;
        share.sum_differences += difference * difference;
        if (std::abs(weight) > std::abs(weights_[first + largest])) largest = i;
        largest_back = std::max(largest_back, std::abs(back[i]));
      }
      const float size = std::abs(weights_[first + largest]);
      if (size > kSurelyInRange && largest_back < size / 2) share.bad = first + largest;
    });
    for (const Share& share : shares_) {
      sum_squares_ += share.sum_squares;
      sum_differences_ += share.sum_differences;
    }
    return check_shares(tensor, at, fmt::format("beyond the range of {}", dtype_info(type).name));
  }

  const GgufFile& from_;
  GgufWriter& to_;
  ThreadPool pool_;
  std::vector<std::byte> raw_;
  std::vector<float> weights_;
  std::vector<std::byte> encoded_;
  std::vector<Share> shares_;
  double sum_squares_ = 0;
  double sum_differences_ = 0;
};

// A file that is read while it is replaced would be lost when anything fails, and is lost when nothing does.
Result<void> check_output(const GgufFile& file, const std::string& to) {
  for (uint32_t shard = 0; shard < file.n_shards(); shard++) {
    if (!file.file(shard).is_at(to)) continue;
    return Error{ErrorCode::invalid_argument,
                 fmt::format("gguf: the output '{}' is the input '{}': give the output another name", to,
                             file.file(shard).path())};
  }
  return {};
}

}  // namespace

Result<QuantizeReport> quantize_file(const std::string& from, const std::string& to, const Mix& mix,
                                     const QuantizeOptions& options,
                                     const std::function<void(const QuantizeProgress&)>& progress) {
  const GgufFile file = TRY(GgufFile::open(from));
  TRY(check_output(file, to));
  const std::vector<DType> types = TRY(plan_types(file, mix, options));

  HeaderBuilder header;
  header.copy(file.metadata());
  header.set_u32("general.quantization_version", 2);
  header.set_u32("general.file_type", mix.file_type);
  QuantizeProgress state;
  for (size_t t = 0; t < types.size(); t++) {
    const TensorInfo& tensor = file.tensors()[t];
    header.add_tensor(tensor.name, types[t], std::span(tensor.dims).first(tensor.n_dims));
    state.n_total += tensor.n_elements;
  }
  GgufWriter writer = TRY(GgufWriter::create(to, header, options.output));
  Converter converter(file, writer, options.n_threads);

  QuantizeReport report;
  const auto done = [&](uint64_t n) {
    state.n_done += n;
    if (progress) progress(state);
  };
  for (size_t t = 0; t < types.size(); t++) {
    const TensorInfo& tensor = file.tensors()[t];
    state.tensor = tensor.name;
    if (types[t] == tensor.dtype) {
      TRY(converter.copy(tensor));
      done(tensor.n_elements);
    } else {
      TRY(converter.convert(tensor, types[t], done));
      report.n_converted++;
    }
    report.bytes_before += tensor.n_bytes;
    report.bytes_after += writer.tensors()[t].n_bytes;
  }
  TRY(writer.finish());
  report.n_tensors = types.size();
  report.relative_error = converter.relative_error();
  return report;
}

}  // namespace rocmforge::gguf
