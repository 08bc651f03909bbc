#pragma once
// Makes generation requests of a chat request's body. The bodies of the other APIs are converted to this form first, so
// that one piece of code reads, checks, renders and tokenizes all of them.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chat/message_parser.h"
#include "server/api/call.h"
#include "server/api/generation_fields.h"
#include "server/api/generation_run.h"
#include "server/api/message_shape.h"

namespace rocmforge::server {

struct Conversation {
  GenerationFields generation;  // the request is complete
  chat::ParserOptions parser;   // of the answer
  bool has_old_calls = false;   // `functions`: the answer has one function_call instead of tool_calls
  std::string ignored;          // for Call::tell_ignored
};

struct ConversationOptions {
  bool reads_reasoning = true;   // false: reasoning is part of the content
  bool shortens_answer = false;  // max_tokens beyond the context is reduced instead of refused
};

// The error of a request that is refused. Returns early if the client has left (call.is_abandoned()).
std::optional<ApiError> prepare_conversation(const Call& call, Fields& fields, const ServedModel& model,
                                             const ConversationOptions& options, Conversation& out);

// Starts the generation; the answer goes to the call's exchange.
template <class Writer>
void start_conversation(const Call& call, ModelRef model, std::string id, Conversation conversation, Writer writer) {
  const uint32_t n = conversation.generation.n;
  std::vector<GenerationRequest> choices(n, conversation.generation.request);
  for (uint32_t i = 0; i < n; i++) choices[i].sampling.seed += i;
  // The run holds the model for as long as there are tokens.
  Remember remember = [shared = call.shared, owner = call.client.owner, name = model->name,
                       tokenizer = model->tokenizer, tail = conversation.parser.prompt_tail](
                          const std::string& digest, const std::vector<TokenId>& tokens) {
    shared->known_answers.put(name, digest, owner, {tokens, tail}, *tokenizer);
  };
  MessageShape<Writer> shape(std::move(writer), std::move(conversation.parser), n, conversation.generation.stream,
                             *model, std::move(remember));
  GenerationRun<MessageShape<Writer>>::start(call, std::move(model), std::move(id), std::move(shape),
                                             std::move(choices), n);
}

}  // namespace rocmforge::server
