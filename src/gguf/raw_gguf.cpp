#include "gguf/raw_gguf.h"

#include <fmt/core.h>

namespace rocmforge::gguf::testing {
namespace {

uint32_t id(ValueType type) {
  return static_cast<uint32_t>(type);
}
uint32_t id(DType type) {
  return static_cast<uint32_t>(type);
}

uint64_t rounded_up(uint64_t n, uint64_t unit) {
  return (n + unit - 1) / unit * unit;
}

// A key of each value type, and an array of each element type with `n` elements.
void add_all_value_types(RawGguf& file, uint64_t n) {
  for (const auto type : {ValueType::u8, ValueType::i8, ValueType::u16, ValueType::i16, ValueType::u32, ValueType::i32,
                          ValueType::f32, ValueType::boolean, ValueType::u64, ValueType::i64, ValueType::f64}) {
    const std::string ones(value_type_bytes(type), '\1');
    const std::string name(value_type_name(type));
    file.keys.push_back({"one." + name, {id(type), RawBytes().field("value", ones)}});
    std::string elements;
    for (uint64_t i = 0; i < n; i++) elements += ones;
    file.keys.push_back({"array." + name, raw_array(id(type), n, elements)});
  }
  file.keys.push_back({"one.string", raw_string("text")});
  file.keys.push_back({"array.string", raw_strings({"a", "", "bc"})});
}

// A tensor of two rows of one block for every type that files may hold, one after the other.
void add_all_tensor_types(RawGguf& file) {
  uint64_t offset = 0;
  for (const DTypeInfo& type : all_dtypes()) {
    if (type.use == DTypeUse::activation) continue;
    file.tensors.push_back(
        {fmt::format("blk.0.{}.weight", type.name), {type.block_elements, 2}, id(type.dtype), offset});
    offset = rounded_up(offset + 2 * uint64_t{type.block_bytes}, file.alignment);
  }
  file.n_data_bytes = offset;
}

RawGguf vocabulary_file() {
  RawGguf file = small_gguf();
  std::vector<std::string> tokens;
  std::string scores;
  for (int i = 0; i < 64; i++) {
    tokens.push_back(fmt::format("<0x{:02X}>", i));
    scores += RawBytes().integer("", static_cast<float>(-i)).bytes();
  }
  file.keys.push_back({"tokenizer.ggml.model", raw_string("llama")});
  file.keys.push_back({"tokenizer.ggml.tokens", raw_strings(tokens)});
  file.keys.push_back({"tokenizer.ggml.scores", raw_array(id(ValueType::f32), 64, scores)});
  file.keys.push_back({"tokenizer.chat_template", raw_string(std::string(600, '{'))});
  return file;
}

RawGguf layered_file() {
  RawGguf file;
  file.keys.push_back({"general.architecture", raw_string("llama")});
  file.keys.push_back({"llama.block_count", raw_u32(4)});
  file.keys.push_back({"general.alignment", raw_u32(64)});
  file.alignment = 64;
  uint64_t offset = 0;
  for (int layer = 0; layer < 4; layer++) {
    for (const char* name : {"attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down"}) {
      file.tensors.push_back({fmt::format("blk.{}.{}.weight", layer, name), {8, 4}, id(DType::f16), offset});
      offset += 64;
    }
  }
  file.n_data_bytes = offset;
  return file;
}

RawGguf old_file_with_gaps() {
  RawGguf file;
  file.version = 2;
  file.keys.push_back({"general.alignment", raw_u32(1)});
  file.alignment = 1;
  add_all_value_types(file, 17);
  file.tensors.push_back({"last", {3, 1, 2, 1}, id(DType::i8), 1001});
  file.tensors.push_back({"first", {5}, id(DType::i16), 3});
  file.n_data_bytes = 1007;
  return file;
}

RawGguf split_file() {
  RawGguf file = small_gguf();
  file.keys.push_back({"split.no", raw_number(ValueType::u16, uint16_t{0})});
  file.keys.push_back({"split.count", raw_number(ValueType::u16, uint16_t{2})});
  file.keys.push_back({"split.tensors.count", raw_number(ValueType::i32, 5)});
  add_all_value_types(file, 3);
  return file;
}

}  // namespace

RawBytes& RawBytes::append(const RawBytes& other) {
  for (const Field& field : other.fields_) {
    fields_.push_back({field.name, field.offset + bytes_.size(), field.n_bytes});
  }
  bytes_ += other.bytes_;
  return *this;
}

RawValue raw_u32(uint32_t value) {
  return raw_number(ValueType::u32, value);
}

RawValue raw_string(std::string_view text, std::optional<uint64_t> said_length) {
  return {id(ValueType::string), RawBytes().integer("string length", said_length.value_or(text.size())).text(text)};
}

RawValue raw_array(uint32_t element_type, uint64_t said_length, std::string_view elements) {
  return {id(ValueType::array),
          RawBytes().integer("element type", element_type).integer("array length", said_length).text(elements)};
}

RawValue raw_strings(const std::vector<std::string>& texts, std::optional<uint64_t> said_length) {
  RawValue array = raw_array(id(ValueType::string), said_length.value_or(texts.size()), "");
  for (const std::string& text : texts) {
    array.bytes.integer("element length", static_cast<uint64_t>(text.size())).text(text);
  }
  return array;
}

RawBytes RawGguf::header() const {
  RawBytes out;
  out.text(magic).integer("version", version);
  out.integer("tensor count", said_n_tensors.value_or(tensors.size()));
  out.integer("key count", said_n_keys.value_or(keys.size()));
  for (const RawKey& key : keys) {
    out.integer("key length", key.said_name_length.value_or(key.name.size())).text(key.name);
    out.integer("value type", key.value.type).append(key.value.bytes);
  }
  for (const RawTensor& tensor : tensors) {
    out.integer("tensor name length", tensor.said_name_length.value_or(tensor.name.size())).text(tensor.name);
    out.integer("dimension count", tensor.said_n_dims.value_or(static_cast<uint32_t>(tensor.dims.size())));
    for (const uint64_t dim : tensor.dims) out.integer("dimension", dim);
    out.integer("tensor type", tensor.type).integer("offset", tensor.offset);
  }
  return out;
}

std::string RawGguf::file() const {
  std::string bytes = header().bytes();
  bytes.resize(rounded_up(bytes.size(), alignment) + n_data_bytes);
  return bytes;
}

RawGguf small_gguf() {
  RawGguf file;
  file.keys = {{"general.architecture", raw_string("llama")}, {"llama.block_count", raw_u32(2)}};
  file.tensors = {{"a.weight", {16}, id(DType::f32), 0}, {"b.weight", {16, 4}, id(DType::f16), 64}};
  file.n_data_bytes = 192;
  return file;
}

RawGguf gguf_of_type(DType dtype) {
  const DTypeInfo& type = dtype_info(dtype);
  RawGguf file;
  file.tensors = {{"t", {type.block_elements}, id(dtype), 0}};
  file.n_data_bytes = type.block_bytes;
  return file;
}

std::vector<std::pair<std::string, RawGguf>> seed_files() {
  RawGguf all_types;
  add_all_tensor_types(all_types);
  return {{"vocabulary", vocabulary_file()},
          {"layered", layered_file()},
          {"all_tensor_types", all_types},
          {"old_with_gaps", old_file_with_gaps()},
          {"split", split_file()}};
}

}  // namespace rocmforge::gguf::testing
