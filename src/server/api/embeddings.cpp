// POST /v1/embeddings

#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>
#include <new>

#include "server/api/generation_fields.h"
#include "server/api/request_fields.h"
#include "server/api/routes.h"

namespace rocmforge::server {
namespace {

constexpr size_t kMaxInputs = 2048;
constexpr size_t kMaxUnderWay = 16;  // of one request's inputs, so that it leaves room in the queue

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

struct EmbeddingFields {
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

// Submits the inputs, a few at a time, and answers when all are back.
class EmbeddingRun : public std::enable_shared_from_this<EmbeddingRun> {
 public:
  EmbeddingRun(Call call, ModelRef model, EmbeddingFields fields)
      : call_(std::move(call)), fields_(std::move(fields)), model_(std::move(model)), results_(fields_.inputs.size()) {
    for (const auto& input : fields_.inputs) n_tokens_ += input.size();
  }
  // An engine that had no memory left may have dropped it.
  ~EmbeddingRun() {
    if (!is_over_) call_.give_up(std::bad_alloc());
  }

  void start() {
    call_.exchange->on_cancel([weak = weak_from_this(), shared = call_.shared] {
      shared->post_work([weak] {
        if (const auto run = weak.lock()) run->cancel();
      });
    });
    for (size_t i = 0; i < std::min(kMaxUnderWay, results_.size()); i++) submit_next();
  }

 private:
  void submit_next() {
    std::unique_lock lock(mutex_);
    if (is_over_ || n_submitted_ == results_.size()) return;
    const size_t index = n_submitted_++;
    const ModelRef model = model_;
    lock.unlock();
    const auto receive = [self = shared_from_this(), index](RequestEvent&& event) {
      auto* last = std::get_if<FinishEvent>(&event);
      if (last && !self->call_.attempt([&] { self->finish(index, std::move(*last)); })) self->cancel();
    };
    const auto accepted = model->embed({.tokens = std::move(fields_.inputs[index]),
                                        .pooling = fields_.pooling,
                                        .client = ClientId(call_.client.number())},
                                       receive);
    lock.lock();
    if (!accepted.ok()) return refuse(accepted.error());
    ids_.push_back(*accepted);
    if (is_over_) model->cancel(*accepted);
  }

  void finish(size_t index, FinishEvent&& event) {
    {
      const std::lock_guard lock(mutex_);
      if (is_over_) return;
      if (event.reason == FinishReason::error) return refuse(*event.error);
      results_[index] = std::move(event.embedding);
      if (fields_.n_dimensions > 0 && fields_.n_dimensions < results_[index].size()) {
        shorten(results_[index], fields_.n_dimensions);
      }
      n_finished_++;
    }
    call_.shared->post_work([self = shared_from_this()] {
      if (!self->call_.attempt([&] { self->go_on(); })) self->cancel();
    });
  }

  // On a worker: many numbers take a while to be written.
  void go_on() {
    {
      const std::lock_guard lock(mutex_);
      if (n_finished_ == results_.size() && !std::exchange(is_over_, true)) {
        call_.respond(200, to_json());
        return release();
      }
    }
    submit_next();
  }

  // With mutex_ held.
  void refuse(const Error& error) {
    if (std::exchange(is_over_, true)) return;
    call_.refuse(ApiError::from(error));
    for (const RequestId id : ids_) model_->cancel(id);
    release();
  }
  void release() {
    call_.shared->post_work([model = std::move(model_)] {});
  }

  void cancel() {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_over_, true)) return;
    for (const RequestId id : ids_) model_->cancel(id);
    release();
  }

  std::string to_json() const {
    JsonWriter w;
    w.begin_object().key("object").value("list").key("data").begin_array();
    for (size_t i = 0; i < results_.size(); i++) {
      w.begin_object().key("object").value("embedding").key("index").value(uint64_t{i}).key("embedding");
      if (fields_.base64) {
        w.value(to_base64(results_[i]));
      } else {
        w.begin_array();
        for (const float v : results_[i]) w.value(v);
        w.end_array();
      }
      w.end_object();
    }
    w.end_array().key("model").value(fields_.model).key("usage").begin_object();
    w.key("prompt_tokens").value(n_tokens_).key("total_tokens").value(n_tokens_);
    return w.end_object().end_object().take();
  }

  const Call call_;
  EmbeddingFields fields_;
  uint64_t n_tokens_ = 0;
  std::mutex mutex_;
  ModelRef model_;  // until the answer is complete
  std::vector<std::vector<float>> results_;
  std::vector<RequestId> ids_;
  size_t n_submitted_ = 0, n_finished_ = 0;
  bool is_over_ = false;
};

void add_input(Fields& fields, const ServedModel& model, const JsonValue& value,
               std::vector<std::vector<TokenId>>& out) {
  if (const auto* text = value.as<std::string>()) {
    if (auto error = check_size(text->size(), model, "input")) return fields.refuse(std::move(*error));
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
    if (*pooling != "mean" && *pooling != "last") fields.refuse("pooling", "must be \"mean\" or \"last\".");
    out.pooling = *pooling == "last" ? Pooling::last : Pooling::mean;
  }
  fields.text("user");  // without effect, and yet of no other type
  out.n_dimensions = static_cast<size_t>(fields.integer("dimensions", 1, model.n_embedding).value_or(0));
  const JsonValue* input = fields.find("input");
  const auto* array = input ? input->as<JsonArray>() : nullptr;
  if (!input) {
    fields.refuse("input", "must be a string, an array of strings, token ids or an array of those.");
  } else if (!array || is_token_array(*array)) {
    add_input(fields, model, *input, out.inputs);
  } else if (array->empty() || array->size() > kMaxInputs) {
    fields.refuse("input", fmt::format("must hold 1 to {} texts.", kMaxInputs));
  } else {
    for (const JsonValue& one : *array) {
      if (fields.error() || call.is_abandoned()) break;
      add_input(fields, model, one, out.inputs);
    }
  }
  return out;
}

}  // namespace

void embeddings(const Call& call) {
  const auto body = call.read_body();
  if (!body) return;
  call.with_model(*body, [call, body](ModelRef model) {
    Fields fields(*body);
    refuse_unsupported(fields, FieldFamily::embeddings);
    EmbeddingFields read = read_fields(fields, call, *model);
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
    constexpr std::string_view kAdvice = "Send fewer inputs at a time, or ask for fewer dimensions or for base64.";
    if (!call.hold_answer(max_answer_bytes(read, *model), "input", kAdvice)) return;
    std::make_shared<EmbeddingRun>(call, std::move(model), std::move(read))->start();
  });
}

}  // namespace rocmforge::server
