// Ollama's POST /api/chat, /api/generate, /api/embed, /api/embeddings

#include <utility>

#include "server/api/body_parts.h"
#include "server/api/conversation.h"
#include "server/api/infill.h"
#include "server/api/ollama_models.h"
#include "server/api/ollama_writer.h"
#include "server/api/routes.h"

namespace rocmforge::server {
namespace {

// The prompt as it stands, without the model's template.
std::optional<ApiError> prepare_raw(const Call& call, Fields& fields, const ServedModel& model,
                                    const OllamaRequest& request, Conversation& out) {
  out.generation = read_constrained_generation(fields, call, model);
  if (auto error = check_size(request.raw->size() + request.suffix.size(), model, "prompt")) return error;
  if (!request.suffix.empty()) {
    const InfillText text{.before = *request.raw, .behind = request.suffix};
    out.generation.request.prompt = read_infill(fields, "suffix", *model.tokenizer, text);
  } else {
    auto tokens = model.tokenizer->encode(*request.raw, {.parse_special = true, .add_bos = true});
    if (!tokens.ok()) return ApiError::from(tokens.error());
    out.generation.request.prompt = std::move(*tokens);
  }
  if (fields.error()) return fields.error();
  out.parser.format = model.tool_format->format;
  out.parser.reads_calls = out.parser.reads_reasoning = false;
  out.generation.request.max_tokens = std::min(
      out.generation.request.max_tokens.value_or(UINT32_MAX),
      model.n_context - std::min(model.n_context - 1, static_cast<uint32_t>(out.generation.request.prompt.size())));
  return check_context(out.generation.request, model, "prompt");
}

std::string with_names(std::string list, const std::vector<std::string>& names) {
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

void answer(const Call& call, JsonValue& body, ModelRef model, OllamaAnswer kind) {
  const std::string name = text_or(body, "model", model->name);
  OllamaRequest request;
  if (const auto error = read_ollama(std::move(*object_in(body)), kind, request)) return call.refuse(*error);
  // How long a model stays concerns everybody. Clients send it with every request, so it is named, not refused.
  const bool sets_time = request.keep_alive || (request.is_unload && !request.is_load);
  if (sets_time && !call.client.is_admin) {
    request.ignored.emplace_back("keep_alive");
    request.keep_alive.reset();
    request.is_unload = false;
  }
  if (request.is_unload && !call.client.is_admin) return call.refuse(ApiError::not_admin());
  if (request.keep_alive) call.shared->models.keep(model->name, *request.keep_alive);
  OllamaWriter writer(kind, name, *model->tokenizer);
  if (request.is_load) {
    call.tell_ignored(with_names("", request.ignored));
    if (request.is_unload) (void)call.shared->models.unload(model->name);
    return call.respond(200, writer.loaded(request.is_unload ? "unload" : "load"));
  }
  Conversation conversation;
  Fields fields(request.chat);
  const auto error = request.raw ? prepare_raw(call, fields, *model, request, conversation)
                                 : prepare_conversation(call, fields, *model, {.shortens_answer = true}, conversation);
  if (call.is_abandoned()) return;
  if (error) return call.refuse(*error);
  call.tell_ignored(with_names(conversation.ignored, request.ignored));
  if (request.is_unload) (void)call.shared->models.unload(model->name);  // when this request has ended
  start_conversation(call, std::move(model), make_id("ollama"), std::move(conversation), std::move(writer));
}

void begin(const Call& call, OllamaAnswer kind) {
  const auto body = call.read_body();
  if (!body) return;
  use_listed_name(call, *body);
  call.with_model(*body, [call, body, kind](ModelRef model) { answer(call, *body, std::move(model), kind); });
}

void embed(const Call& call, EmbeddingShape shape) {
  const auto body = call.read_body();
  if (!body) return;
  use_listed_name(call, *body);
  JsonObject& members = *object_in(*body);
  JsonValue input = take_member(members, shape == EmbeddingShape::ollama_old ? "prompt" : "input");
  JsonObject asked{{"model", JsonValue(text_or(*body, "model", ""))}};
  if (!input.is_null()) asked.emplace_back("input", std::move(input));
  if (JsonValue n = take_member(members, "dimensions"); !n.is_null()) asked.emplace_back("dimensions", std::move(n));
  *body = std::move(asked);
  embed_texts(call, body, shape);
}

}  // namespace

void ollama_chat(const Call& call) {
  begin(call, OllamaAnswer::chat);
}
void ollama_generate(const Call& call) {
  begin(call, OllamaAnswer::generate);
}
void ollama_embed(const Call& call) {
  embed(call, EmbeddingShape::ollama);
}
void ollama_embeddings(const Call& call) {
  embed(call, EmbeddingShape::ollama_old);
}

}  // namespace rocmforge::server
