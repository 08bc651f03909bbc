// POST /v1/embeddings

#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "server/api/embedding_run.h"
#include "server/api/generation_fields.h"
#include "server/api/request_fields.h"
#include "server/api/routes.h"

namespace rocmforge::server {
namespace {

constexpr size_t kMaxInputs = 8192;

std::string to_base64(std::span<const float> values) {
  static_assert(std::endian::native == std::endian::little);
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<uint8_t> bytes(values.size_bytes());
  std::memcpy(bytes.data(), values.data(), bytes.size());
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; j++) group = group << 8 | (j < n ? bytes[i + j] : 0u);
    for (size_t j = 0; j < 4; j++) out += j <= n ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

void shorten(std::vector<float>& values, size_t n) {
  values.resize(n);
  double squares = 0;
  for (const float v : values) squares += double{v} * v;
  if (squares == 0) return;
  const auto scale = static_cast<float>(1 / std::sqrt(squares));
  for (float& v : values) v *= scale;
}

struct PoolingName {
  std::string_view name;
  Pooling pooling;
};
constexpr PoolingName kPoolings[] = {{"mean", Pooling::mean}, {"cls", Pooling::first}, {"last", Pooling::last}};

struct EmbeddingFields {
  EmbeddingShape shape = EmbeddingShape::openai;
  std::vector<std::vector<TokenId>> inputs;
  Pooling pooling = Pooling::mean;
  size_t n_dimensions = 0;  // 0: all
  bool base64 = false;
  std::string model;
};

// No answer is longer: a float has at most 15 characters and a comma, four bytes are at most six digits of base64.
uint64_t max_answer_bytes(const EmbeddingFields& fields, const ServedModel& model) {
  constexpr uint64_t kAround = 128;
  uint64_t n_values = model.n_embedding;
  if (fields.n_dimensions > 0) n_values = std::min<uint64_t>(n_values, fields.n_dimensions);
  return (fields.inputs.size() + 1) * kAround + fields.inputs.size() * n_values * (fields.base64 ? 6 : 16);
}

void write_numbers(JsonWriter& w, std::span<const float> values) {
  w.begin_array();
  for (const float v : values) w.value(v);
  w.end_array();
}

// Ollama's answer; that of its older path has one vector.
std::string to_ollama_json(const EmbeddingFields& fields, uint64_t n_tokens,
                           const std::vector<std::vector<float>>& results) {
  JsonWriter w;
  w.begin_object();
  if (fields.shape == EmbeddingShape::ollama_old) {
    write_numbers(w.key("embedding"), results[0]);
    return w.end_object().take();
  }
  w.key("model").value(fields.model).key("embeddings").begin_array();
  for (const auto& values : results) write_numbers(w, values);
  w.end_array().key("prompt_eval_count").value(n_tokens);
  return w.end_object().take();
}

// The answer, when all embeddings are back.
std::string to_json(const EmbeddingFields& fields, uint64_t n_tokens, std::vector<std::vector<float>> results) {
  for (auto& values : results) {
    if (fields.n_dimensions > 0 && fields.n_dimensions < values.size()) shorten(values, fields.n_dimensions);
  }
  if (fields.shape != EmbeddingShape::openai) return to_ollama_json(fields, n_tokens, results);
  JsonWriter w;
  w.begin_object().key("object").value("list").key("data").begin_array();
  for (size_t i = 0; i < results.size(); i++) {
    w.begin_object().key("object").value("embedding").key("index").value(uint64_t{i}).key("embedding");
    if (fields.base64) {
      w.value(to_base64(results[i]));
    } else {
      write_numbers(w, results[i]);
    }
    w.end_object();
  }
  w.end_array().key("model").value(fields.model).key("usage").begin_object();
  w.key("prompt_tokens").value(n_tokens).key("total_tokens").value(n_tokens);
  return w.end_object().end_object().take();
}

void add_input(Fields& fields, const ServedModel& model, const SizeCheck& check_size, const JsonValue& value,
               std::vector<std::vector<TokenId>>& out) {
  if (const auto* text = value.as<std::string>()) {
    if (auto error = check_size(text->size(), "input")) return fields.refuse(std::move(*error));
    auto tokens = model.tokenizer->encode(*text, {.add_bos = true, .add_eos = true});
    if (!tokens.ok()) return fields.refuse(ApiError::from(tokens.error()));
    if (text->empty() || tokens->empty()) return fields.refuse("input", "must not hold an empty text.");
    out.push_back(std::move(*tokens));
  } else if (const auto* array = value.as<JsonArray>()) {
    if (auto tokens = read_tokens(fields, "input", *array, *model.tokenizer)) out.push_back(std::move(*tokens));
  } else {
    fields.refuse("input", "must be a string, an array of strings, token ids or an array of those.");
  }
}

EmbeddingFields read_fields(Fields& fields, const Call& call, const ServedModel& model) {
  EmbeddingFields out;
  out.model = fields.text("model").value_or("");
  if (out.model.empty()) out.model = model.name;
  const auto format = fields.text("encoding_format").value_or("float");
  out.base64 = format == "base64";
  if (!out.base64 && format != "float") fields.refuse("encoding_format", "must be \"float\" or \"base64\".");
  out.pooling = model.pooling;
  if (const auto pooling = fields.text("pooling")) {
    const auto known = std::ranges::find(kPoolings, *pooling, &PoolingName::name);
    if (known == std::end(kPoolings)) {
      fields.refuse("pooling", "must be \"mean\", \"cls\" or \"last\".");
    } else {
      out.pooling = known->pooling;
    }
  }
  fields.text("user");  // without effect, and yet of no other type
  out.n_dimensions = static_cast<size_t>(fields.integer("dimensions", 1, model.n_embedding).value_or(0));
  const SizeCheck check_size(model);
  const JsonValue* input = fields.find("input");
  const auto* array = input ? input->as<JsonArray>() : nullptr;
  if (!input) {
    fields.refuse("input", "must be a string, an array of strings, token ids or an array of those.");
  } else if (!array || is_token_array(*array)) {
    add_input(fields, model, check_size, *input, out.inputs);
  } else if (array->empty() || array->size() > kMaxInputs) {
    fields.refuse("input", fmt::format("must hold 1 to {} texts.", kMaxInputs));
  } else {
    for (const JsonValue& one : *array) {
      if (fields.error() || call.is_abandoned()) break;
      add_input(fields, model, check_size, one, out.inputs);
    }
  }
  return out;
}

}  // namespace

void embeddings(const Call& call) {
  const auto body = call.read_body();
  if (body) embed_texts(call, body, EmbeddingShape::openai);
}

void embed_texts(const Call& call, const std::shared_ptr<JsonValue>& body, EmbeddingShape shape) {
  call.with_model(*body, [call, body, shape](ModelRef model) {
    Fields fields(*body);
    refuse_unsupported(fields, FieldFamily::embeddings);
    EmbeddingFields read = read_fields(fields, call, *model);
    read.shape = shape;
    if (call.is_abandoned()) return;
    if (fields.error()) return call.refuse(*fields.error());
    call.tell_ignored(ignored_names(fields));
    call.record->note([&](RequestRecord::Facts& facts) {
      facts.n_prompt = 0;
      for (const auto& input : read.inputs) *facts.n_prompt += input.size();
    });
    for (const auto& input : read.inputs) {
      if (input.size() <= model->n_context) continue;
      ApiError error = ApiError::context_length(model->n_context, input.size(), 0);
      error.param = "input";
      return call.refuse(error);
    }
    if (read.pooling == Pooling::rank) {
      return call.refuse(ApiError::bad_param(
          "model", "This model is a reranker: use /v1/rerank, or name a 'pooling' to have embeddings of it.",
          "unsupported_feature"));
    }
    constexpr std::string_view kAdvice = "Send fewer inputs at a time, or ask for fewer dimensions or for base64.";
    if (!call.hold_answer(max_answer_bytes(read, *model), "input", kAdvice)) return;
    uint64_t n_tokens = 0;
    for (const auto& input : read.inputs) n_tokens += input.size();
    auto texts = std::move(read.inputs);
    const Pooling pooling = read.pooling;
    std::make_shared<EmbeddingRun>(
        call, std::move(model), std::move(texts), pooling,
        [body, fields = std::move(read), n_tokens](auto results) {  // the body counts what came of it
          return to_json(fields, n_tokens, std::move(results));
        })
        ->start();
  });
}

}  // namespace rocmforge::server
