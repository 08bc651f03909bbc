// POST /v1/chat/completions

#include <utility>

#include "server/api/chat_writer.h"
#include "server/api/conversation.h"
#include "server/api/routes.h"

namespace rocmforge::server {
namespace {

ReasoningFormat read_reasoning_format(Fields& fields) {
  const std::string name = fields.text("reasoning_format").value_or("auto");
  if (name == "none") return ReasoningFormat::none;
  if (name == "both") return ReasoningFormat::both;
  if (name != "auto" && name != "deepseek") {
    fields.refuse("reasoning_format", "must be \"auto\", \"both\" or \"none\".");
  }
  return ReasoningFormat::apart;
}

void answer(const Call& call, const JsonValue& body, ModelRef model) {
  Fields fields(body);
  const ReasoningFormat reasoning = read_reasoning_format(fields);
  Conversation conversation;
  const auto error =
      prepare_conversation(call, fields, *model, {.reads_reasoning = reasoning != ReasoningFormat::none}, conversation);
  if (call.is_abandoned()) return;
  if (error) return call.refuse(*error);
  call.tell_ignored(conversation.ignored);
  const std::string id = make_id("chatcmpl");
  ChatWriter writer(id, conversation.generation, call, *model,
                    {.reasoning = reasoning, .has_old_calls = conversation.has_old_calls});
  start_conversation(call, std::move(model), id, std::move(conversation), std::move(writer));
}

}  // namespace

void chat_completions(const Call& call) {
  const auto body = call.read_body();
  if (!body) return;
  call.with_model(*body, [call, body](ModelRef model) { answer(call, *body, std::move(model)); });
}

}  // namespace rocmforge::server
