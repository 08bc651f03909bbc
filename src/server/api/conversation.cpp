#include "server/api/conversation.h"

#include <algorithm>

#include "server/api/message_constraint_fields.h"
#include "server/api/prompt.h"
#include "server/api/request_fields.h"
#include "server/api/tools.h"

namespace rocmforge::server {
namespace {

void read_logprobs(Fields& fields, SamplingOptions& sampling) {
  sampling.want_logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, kMaxLogprobs);
  if (top && !sampling.want_logprobs) fields.refuse("top_logprobs", "needs 'logprobs' to be true.");
  sampling.n_logprobs = static_cast<uint32_t>(top.value_or(0));
}

void shorten_answer(GenerationRequest& request, uint32_t n_context) {
  if (!request.max_tokens || request.prompt.size() >= n_context) return;
  request.max_tokens = std::min(*request.max_tokens, n_context - static_cast<uint32_t>(request.prompt.size()));
}

// The answers of this server in a conversation, in the tokens in which the model wrote them.
std::vector<chat::WrittenAnswer> known_answers(const Call& call, const ServedModel& model, const JsonArray& messages) {
  std::vector<chat::WrittenAnswer> out;
  for (size_t i = 0; i < messages.size(); i++) {
    const auto digest = AnswerDigest::of_message(messages[i]);
    if (!digest) continue;
    auto known = call.shared->known_answers.find(model.name, *digest, call.client.owner, *model.tokenizer);
    if (known) out.push_back({i, std::move(known->tokens), std::move(known->prompt_tail)});
  }
  return out;
}

}  // namespace

std::optional<ApiError> prepare_conversation(const Call& call, Fields& fields, const ServedModel& model,
                                             const ConversationOptions& options, Conversation& out) {
  refuse_unsupported(fields, FieldFamily::chat);
  out.generation = read_generation(fields, call, model);
  GenerationRequest& request = out.generation.request;
  read_logprobs(fields, request.sampling);
  ToolRequest tools = read_tools(fields);
  AskedMessage asked{.answer = read_constraint(fields), .max_thinking_tokens = read_thinking_budget(fields, model)};
  chat::ChatRequest conversation = read_conversation(fields);
  if (fields.error()) return fields.error();
  asked.may_think = conversation.enable_thinking.value_or(true);
  if (call.is_abandoned()) return {};

  conversation.tools = shown_tools(tools.tools);
  const bool has_tools = !conversation.tools.empty();
  const size_t n_bytes = text_bytes(conversation.messages) + text_bytes(conversation.tools);
  if (auto error = check_size(n_bytes, model, "messages")) return error;
  chat::ParserOptions& parser = out.parser;
  const auto answers = known_answers(call, model, conversation.messages);
  auto prompt = encode_conversation(model, std::move(conversation), answers, &parser.prompt_tail);
  if (call.is_abandoned()) return {};
  if (!prompt.ok()) {
    ApiError error = ApiError::from(prompt.error());
    if (error.status == 400) error.param = "messages";
    return error;
  }
  if (prompt->empty()) return ApiError::bad_param("messages", "The conversation is empty.");
  request.prompt = std::move(*prompt);
  if (options.shortens_answer) shorten_answer(request, model.n_context);
  if (auto error = check_context(request, model, "messages")) return error;

  parser.format = model.tool_format->format;
  parser.control = model.tool_format->control;
  parser.tools = tools.set;
  parser.reads_calls = has_tools;
  parser.reads_reasoning = options.reads_reasoning;
  if (!tools.is_parallel) parser.max_calls = 1;
  out.has_old_calls = tools.is_old;
  request.constraint = constrain_answer(fields, model, asked, parser, tools);
  read_constraint_options(fields, request.constraint);
  if (fields.error()) return fields.error();
  out.ignored = ignored_names(fields, tools.ignored);
  // Plain text needs no marks.
  if (parser.reads_calls || parser.reads_reasoning) request.marked_tokens = model.tool_format->markers;
  return {};
}

}  // namespace rocmforge::server
