// Anthropic's POST /v1/messages, POST /v1/messages/count_tokens

#include "server/api/messages_request.h"

#include <utility>

#include "server/api/body_parts.h"
#include "server/api/conversation.h"
#include "server/api/messages_writer.h"
#include "server/api/routes.h"

namespace rocmforge::server {
namespace {

// The body in the form of a chat, checked. False: refused, or the client has left.
struct Prepared {
  MessagesRequest request;
  Conversation conversation;
};
bool prepare(const Call& call, JsonValue& body, const ServedModel& model, bool needs_length, Prepared& out) {
  if (auto error = read_messages(std::move(*object_in(body)), needs_length, out.request)) {
    call.refuse(*error);
    return false;
  }
  Fields fields(out.request.chat);
  auto error = prepare_conversation(call, fields, model, {.shortens_answer = true}, out.conversation);
  if (call.is_abandoned()) return false;
  if (error) {
    call.refuse(messages_error(*std::move(error)));
    return false;
  }
  std::string ignored = out.conversation.ignored;
  for (const std::string& name : out.request.ignored) ignored += (ignored.empty() ? "" : ", ") + name;
  call.tell_ignored(std::move(ignored));
  return true;
}

void answer(const Call& call, JsonValue& body, ModelRef model) {
  Prepared prepared;
  if (!prepare(call, body, *model, true, prepared)) return;
  const GenerationFields& generation = prepared.conversation.generation;
  const std::string id = make_id("msg", '_');
  MessagesWriter writer({.id = id,
                         .model = generation.model,
                         .stop = std::move(prepared.request.stop),
                         .n_prompt = static_cast<uint32_t>(generation.request.prompt.size()),
                         .n_context = model->n_context});
  prepared.request.chat = JsonValue();  // the conversation is in tokens now
  start_conversation(call, std::move(model), id, std::move(prepared.conversation), std::move(writer));
}

void count(const Call& call, JsonValue& body, const ServedModel& model) {
  Prepared prepared;
  if (!prepare(call, body, model, false, prepared)) return;
  JsonWriter w;
  w.begin_object().key("input_tokens").value(uint64_t{prepared.conversation.generation.request.prompt.size()});
  call.respond(200, w.end_object().take());
}

}  // namespace

void create_message(const Call& call) {
  const auto body = call.read_body();
  if (!body) return;
  call.with_model(*body, [call, body](ModelRef model) { answer(call, *body, std::move(model)); });
}

void count_message_tokens(const Call& call) {
  const auto body = call.read_body();
  if (!body) return;
  call.with_model(*body, [call, body](const ModelRef& model) { count(call, *body, *model); });
}

}  // namespace rocmforge::server
