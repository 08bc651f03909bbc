#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "base/json.h"
#include "base/units.h"
#include "chat/model_format.h"
#include "chat/usable_template.h"
#include "commands.h"
#include "gguf/mix.h"
#include "gguf/reader.h"
#include "model_path.h"
#include "terminal.h"

namespace rocmforge::apps {
namespace {

using gguf::GgufFile;
using gguf::Metadata;
using gguf::TensorInfo;
using gguf::Value;
using gguf::ValueType;

constexpr uint64_t kShownElements = 8;

struct TypeTotals {
  uint64_t n_tensors = 0;
  uint64_t n_elements = 0;
  uint64_t n_bytes = 0;
};

struct Summary {
  std::string architecture;
  std::string name;
  std::string quantization;  // the mix that general.file_type names
  std::optional<uint64_t> context_length;
  std::string tool_format, tool_format_by;  // of a model with a chat template that can be used
  uint64_t file_bytes = 0;
  uint64_t n_parameters = 0;
  uint64_t n_active = 0;   // of these, used for a token: in a mixture of experts fewer
  std::string size_label;  // as the file's makers write it: "26B-A4B"
  std::map<DType, TypeTotals> types;
};

std::string string_or_empty(const Metadata& metadata, std::string_view key) {
  const Value* value = metadata.find(key);
  return std::string(value ? value->as_string().value_or("") : "");
}

uint64_t number_or_0(const Metadata& metadata, const std::string& key) {
  const Value* value = metadata.find(key);
  return value ? value->as_u64().value_or(0) : 0;
}

void find_tool_format(const Metadata& metadata, Summary& s) {
  if (!metadata.find("tokenizer.chat_template")) return;
  const auto tokenizer = tokenizer::Tokenizer::load(metadata);
  if (!tokenizer.ok()) return;
  const auto chat_template = chat::usable_template(metadata, *tokenizer);
  if (!chat_template.ok()) return;
  const auto found = chat::find_model_format(*chat_template, *tokenizer);
  if (!found.ok()) return;
  s.tool_format = found->format->name;
  s.tool_format_by = chat::name_of(found->found_by);
}

Summary summarize(const GgufFile& file) {
  const Metadata& metadata = file.metadata();
  Summary s;
  s.architecture = string_or_empty(metadata, "general.architecture");
  s.name = string_or_empty(metadata, "general.name");
  if (const Value* context = metadata.find(s.architecture + ".context_length")) s.context_length = context->as_u64();
  if (const Value* file_type = metadata.find("general.file_type")) {
    const auto mixes = gguf::all_mixes();
    const auto mix = std::ranges::find_if(mixes, [&](const auto& m) { return file_type->as_u64() == m.file_type; });
    if (mix != mixes.end()) s.quantization = mix->name;
  }
  find_tool_format(metadata, s);
  s.size_label = string_or_empty(metadata, "general.size_label");
  const uint64_t n_experts = number_or_0(metadata, s.architecture + ".expert_count");
  const uint64_t n_used = number_or_0(metadata, s.architecture + ".expert_used_count");
  for (uint32_t i = 0; i < file.n_shards(); i++) s.file_bytes += file.file(i).size();
  for (const TensorInfo& tensor : file.tensors()) {
    s.n_parameters += tensor.n_elements;
    const bool is_stack = n_experts > 0 && tensor.n_dims == 3 && tensor.dims[2] == n_experts;
    s.n_active += is_stack ? tensor.n_elements / n_experts * std::min(n_used, n_experts) : tensor.n_elements;
    TypeTotals& totals = s.types[tensor.dtype];
    totals.n_tensors++;
    totals.n_elements += tensor.n_elements;
    totals.n_bytes += tensor.n_bytes;
  }
  return s;
}

double bits_per_weight(uint64_t n_bytes, uint64_t n_elements) {
  return n_elements == 0 ? 0 : 8 * static_cast<double>(n_bytes) / static_cast<double>(n_elements);
}

std::string scalar_text(const Value& value) {
  switch (value.type()) {
    case ValueType::string:
      return printable(*value.as_string(), 96);
    case ValueType::boolean:
      return *value.as_bool() ? "true" : "false";
    case ValueType::f32:
      return fmt::format("{}", static_cast<float>(*value.as_f64()));
    case ValueType::f64:
      return fmt::format("{}", *value.as_f64());
    case ValueType::i8:
    case ValueType::i16:
    case ValueType::i32:
    case ValueType::i64:
      return fmt::format("{}", *value.as_i64());
    case ValueType::u8:
    case ValueType::u16:
    case ValueType::u32:
    case ValueType::u64:
      return fmt::format("{}", *value.as_u64());
    case ValueType::array:
      break;
  }
  RF_UNREACHABLE("apps: an array is no scalar");
}

std::string value_text(const Value& value) {
  if (value.type() != ValueType::array) return scalar_text(value);
  std::string out = "[";
  const uint64_t n_shown = std::min(value.n_elements(), kShownElements);
  if (const auto strings = value.as_strings()) {
    auto at = strings->begin();
    for (uint64_t i = 0; i < n_shown; i++, ++at) {
      out += fmt::format("{}\"{}\"", i > 0 ? ", " : "", printable(*at, 24));
    }
  } else {
    for (uint64_t i = 0; i < n_shown; i++) out += (i > 0 ? ", " : "") + scalar_text(value.element(i));
  }
  if (n_shown < value.n_elements()) out += fmt::format(", … {} in all", value.n_elements());
  return out + "]";
}

std::string type_text(const Value& value) {
  if (value.type() != ValueType::array) return std::string(value_type_name(value.type()));
  return fmt::format("{}[]", value_type_name(value.element_type()));
}

std::string dims_text(const TensorInfo& tensor) {
  std::string out;
  for (uint32_t d = 0; d < tensor.n_dims; d++) out += fmt::format("{}{}", d > 0 ? " x " : "", tensor.dims[d]);
  return out;
}

std::string text_report(const std::string& path, const GgufFile& file, const Summary& s, bool list_tensors) {
  using Align = Table::Align;
  std::string out = printable(path, 1000) + "\n";
  Table facts({Align::left, Align::left});
  facts.add({"architecture", printable(s.architecture, 96)});
  if (!s.name.empty()) facts.add({"name", printable(s.name, 96)});
  if (!s.quantization.empty()) facts.add({"quantization", s.quantization});
  if (!s.size_label.empty()) facts.add({"size", printable(s.size_label, 32)});
  facts.add({"parameters",
             format_count(s.n_parameters) +
                 (s.n_active < s.n_parameters ? fmt::format(", {} for a token", format_count(s.n_active)) : "")});
  facts.add({"weights", fmt::format("{}, {:.2f} bits per weight", format_bytes(file.weight_bytes()),
                                    bits_per_weight(file.weight_bytes(), s.n_parameters))});
  if (!s.tool_format.empty()) facts.add({"tool calls", fmt::format("{} (by {})", s.tool_format, s.tool_format_by)});
  if (s.context_length) facts.add({"context", fmt::format("{} tokens", *s.context_length)});
  facts.add({"file", fmt::format("GGUF version {}, {}{}, header {}, tensors aligned to {}", file.version(),
                                 format_bytes(s.file_bytes),
                                 file.n_shards() > 1 ? fmt::format(" in {} files", file.n_shards()) : "",
                                 format_bytes(file.header_bytes()), file.alignment())});
  out += facts.text();

  out += fmt::format("\nmetadata: {} keys\n", file.metadata().entries().size());
  Table keys({Align::left, Align::left, Align::left});
  for (const Metadata::Entry& entry : file.metadata().entries()) {
    keys.add({printable(entry.key, 96), type_text(entry.value), value_text(entry.value)});
  }
  out += keys.text();

  out += fmt::format("\ntensors: {}\n", file.tensors().size());
  Table types({Align::left, Align::right, Align::right, Align::right, Align::right});
  types.add({"type", "tensors", "parameters", "bytes", "bits"});
  for (const auto& [dtype, t] : s.types) {
    types.add({std::string(dtype_info(dtype).name), fmt::format("{}", t.n_tensors), format_count(t.n_elements),
               format_bytes(t.n_bytes), fmt::format("{:.2f}", bits_per_weight(t.n_bytes, t.n_elements))});
  }
  out += types.text();

  if (!list_tensors) return out;
  out += "\n";
  Table list({Align::left, Align::left, Align::right, Align::right});
  for (const TensorInfo& tensor : file.tensors()) {
    list.add({printable(tensor.name, 96), std::string(dtype_info(tensor.dtype).name), dims_text(tensor),
              format_bytes(tensor.n_bytes)});
  }
  return out + list.text();
}

void write_scalar(JsonWriter& json, const Value& value) {
  if (const auto text = value.as_string()) {
    json.value(*text);
  } else if (const auto truth = value.as_bool()) {
    json.value(*truth);
  } else if (value.type() == ValueType::f32) {
    json.value(static_cast<float>(*value.as_f64()));
  } else if (value.type() == ValueType::f64) {
    json.value(*value.as_f64());
  } else if (const auto number = value.as_i64()) {
    json.value(*number);
  } else {
    json.value(*value.as_u64());
  }
}

// Short arrays whole; of a long one its type, length and beginning.
void write_value(JsonWriter& json, const Value& value) {
  if (value.type() != ValueType::array) return write_scalar(json, value);
  const bool whole = value.n_elements() <= 64;
  if (!whole) {
    json.begin_object().key("array").value(value_type_name(value.element_type())).key("n").value(value.n_elements());
    json.key("first");
  }
  const uint64_t n_shown = whole ? value.n_elements() : kShownElements;
  json.begin_array();
  if (const auto strings = value.as_strings()) {
    auto at = strings->begin();
    for (uint64_t i = 0; i < n_shown; i++, ++at) json.value(*at);
  } else {
    for (uint64_t i = 0; i < n_shown; i++) write_scalar(json, value.element(i));
  }
  json.end_array();
  if (!whole) json.end_object();
}

std::string json_report(const std::string& path, const GgufFile& file, const Summary& s) {
  JsonWriter json(JsonWriter::Style::pretty);
  json.begin_object();
  json.key("path").value(path);
  json.key("architecture").value(s.architecture);
  json.key("name").value(s.name);
  json.key("quantization").value(s.quantization);
  json.key("n_parameters").value(s.n_parameters).key("n_active_parameters").value(s.n_active);
  json.key("size_label").value(s.size_label);
  json.key("tool_format").value(s.tool_format).key("tool_format_by").value(s.tool_format_by);
  json.key("weight_bytes").value(file.weight_bytes());
  json.key("bits_per_weight").value(bits_per_weight(file.weight_bytes(), s.n_parameters));
  json.key("context_length");
  s.context_length ? json.value(*s.context_length) : json.null();
  json.key("version").value(file.version());
  json.key("alignment").value(file.alignment());
  json.key("n_shards").value(static_cast<uint64_t>(file.n_shards()));
  json.key("file_bytes").value(s.file_bytes);
  json.key("header_bytes").value(file.header_bytes());
  json.key("metadata").begin_object();
  for (const Metadata::Entry& entry : file.metadata().entries()) {
    json.key(entry.key);
    write_value(json, entry.value);
  }
  json.end_object();
  json.key("types").begin_object();
  for (const auto& [dtype, t] : s.types) {
    json.key(dtype_info(dtype).name).begin_object();
    json.key("n_tensors").value(t.n_tensors);
    json.key("n_parameters").value(t.n_elements);
    json.key("n_bytes").value(t.n_bytes);
    json.end_object();
  }
  json.end_object();
  json.key("tensors").begin_array();
  for (const TensorInfo& tensor : file.tensors()) {
    json.begin_object();
    json.key("name").value(tensor.name);
    json.key("type").value(dtype_info(tensor.dtype).name);
    json.key("dims").begin_array();
    for (uint32_t d = 0; d < tensor.n_dims; d++) json.value(tensor.dims[d]);
    json.end_array();
    json.key("n_bytes").value(tensor.n_bytes);
    json.key("shard").value(tensor.shard);
    json.key("offset").value(tensor.offset);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.take() + "\n";
}

}  // namespace

Result<void> inspect(const InspectCommand& options) {
  const std::string path = TRY(find_model(options.model));
  const GgufFile file = TRY(GgufFile::open(path));
  const Summary summary = summarize(file);
  return print(options.json ? json_report(path, file, summary) : text_report(path, file, summary, options.tensors));
}

}  // namespace rocmforge::apps
