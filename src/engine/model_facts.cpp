#include "engine/model_facts.h"

#include <algorithm>
#include <limits>
#include <map>

#include "gguf/mix.h"
#include "tensor/dtype.h"

namespace rocmforge {
namespace {

using gguf::Metadata;
using gguf::Value;

std::string string_of(const Metadata& metadata, std::string_view key) {
  const Value* value = metadata.find(key);
  return std::string(value ? value->as_string().value_or("") : "");
}

uint32_t number_of(const Metadata& metadata, const std::string& key) {
  const Value* value = metadata.find(key);
  const uint64_t number = value ? value->as_u64().value_or(0) : 0;
  return number <= std::numeric_limits<uint32_t>::max() ? static_cast<uint32_t>(number) : 0;
}

std::string file_type_of(const gguf::GgufFile& file) {
  if (const Value* type = file.metadata().find("general.file_type")) {
    const auto mixes = gguf::all_mixes();
    const auto mix = std::ranges::find_if(mixes, [&](const auto& m) { return type->as_u64() == m.file_type; });
    if (mix != mixes.end()) return std::string(mix->name);
  }
  std::map<DType, uint64_t> n_bytes;
  for (const gguf::TensorInfo& tensor : file.tensors()) n_bytes[tensor.dtype] += tensor.n_bytes;
  const auto most = std::ranges::max_element(n_bytes, {}, [](const auto& entry) { return entry.second; });
  if (most == n_bytes.end()) return "";
  std::string name(dtype_info(most->first).name);
  std::ranges::transform(name, name.begin(),
                         [](char c) { return 'a' <= c && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return name;
}

// A template that never reads a message's role cannot tell the model who speaks.
std::string chat_template_of(const Metadata& metadata) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  if (metadata.find(kKey) == nullptr) return "none";
  return string_of(metadata, kKey).find("role") != std::string::npos ? "roles" : "joined";
}

}  // namespace

ModelFacts read_model_facts(const gguf::GgufFile& file) {
  const Metadata& metadata = file.metadata();
  ModelFacts facts;
  facts.architecture = string_of(metadata, "general.architecture");
  facts.name = string_of(metadata, "general.name");
  facts.n_context_train = number_of(metadata, facts.architecture + ".context_length");
  facts.width = number_of(metadata, facts.architecture + ".embedding_length");
  if (const Value* tokens = metadata.find("tokenizer.ggml.tokens"); tokens && tokens->as_strings()) {
    facts.n_vocab = static_cast<uint32_t>(tokens->n_elements());
  }
  for (const gguf::TensorInfo& tensor : file.tensors()) facts.n_parameters += tensor.n_elements;
  facts.file_type = file_type_of(file);
  facts.chat_template = chat_template_of(metadata);
  return facts;
}

}  // namespace rocmforge
