// POST /v1/chat/completions

#include <utility>

#include "server/api/chat_shape.h"
#include "server/api/generation_fields.h"
#include "server/api/generation_run.h"
#include "server/api/prompt.h"
#include "server/api/request_fields.h"
#include "server/api/routes.h"
#include "server/api/tools.h"

namespace rocmforge::server {
namespace {

void read_logprobs(Fields& fields, SamplingOptions& sampling) {
  sampling.want_logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, kMaxLogprobs);
  if (top && !sampling.want_logprobs) fields.refuse("top_logprobs", "needs 'logprobs' to be true.");
  sampling.n_logprobs = static_cast<uint32_t>(top.value_or(0));
}

ReasoningFormat read_reasoning_format(Fields& fields) {
  const std::string name = fields.text("reasoning_format").value_or("auto");
  if (name == "none") return ReasoningFormat::none;
  if (name == "both") return ReasoningFormat::both;
  if (name != "auto" && name != "deepseek") {
    fields.refuse("reasoning_format", "must be \"auto\", \"both\" or \"none\".");
  }
  return ReasoningFormat::apart;
}

// What stands between the model's reasoning and its answer, where a constraint begins; empty: nothing does.
std::string end_of_reasoning(chat::ParserOptions options) {
  if (options.format != nullptr && options.format->is_harmony) return "<|channel|>final<|message|>";
  options.reads_reasoning = true;
  if (!chat::MessageParser(options).is_reasoning()) return "";
  return options.format != nullptr ? std::string(options.format->reasoning_close.front()) : "</think>";
}

void answer(const Call& call, const JsonValue& body, ModelRef model) {
  Fields fields(body);
  refuse_unsupported(fields, FieldFamily::chat);
  GenerationFields generation = read_generation(fields, call, *model);
  read_logprobs(fields, generation.request.sampling);
  ChatShape::Options shape_options{.reasoning = read_reasoning_format(fields), .parser = {}};
  ToolRequest tools = read_tools(fields);
  tokenizer::ChatRequest conversation = read_conversation(fields);
  if (fields.error()) return call.refuse(*fields.error());
  call.tell_ignored(ignored_names(fields, tools.ignored));
  if (call.is_abandoned()) return;

  conversation.tools = std::move(tools.tools);
  const bool has_tools = !conversation.tools.empty();
  if (has_tools && generation.request.constraint) {
    return call.refuse(ApiError::bad_param(
        "tools", "cannot be combined with a schema or grammar for the answer yet; send \"tool_choice\": \"none\".",
        "unsupported_feature"));
  }
  const size_t n_bytes = text_bytes(conversation.messages) + text_bytes(conversation.tools);
  if (const auto error = check_size(n_bytes, *model, "messages")) return call.refuse(*error);
  chat::ParserOptions& parser = shape_options.parser;
  auto prompt = encode_conversation(*model, std::move(conversation), &parser.prompt_tail);
  if (call.is_abandoned()) return;
  if (!prompt.ok()) {
    ApiError error = ApiError::from(prompt.error());
    if (error.status == 400) error.param = "messages";
    return call.refuse(error);
  }
  if (prompt->empty()) return call.refuse(ApiError::bad_param("messages", "The conversation is empty."));
  generation.request.prompt = std::move(*prompt);
  if (const auto error = check_context(generation.request, *model, "messages")) return call.refuse(*error);

  parser.format = model->tool_format->format;
  parser.control = model->tool_format->control;
  parser.tools = std::move(tools.set);
  parser.reads_calls = has_tools;
  parser.reads_reasoning = shape_options.reasoning != ReasoningFormat::none;
  if (!tools.is_parallel) parser.max_calls = 1;
  shape_options.has_old_calls = tools.is_old;
  if (generation.request.constraint) generation.request.constraint->after = end_of_reasoning(parser);
  // Plain text needs no marks.
  if (parser.reads_calls || parser.reads_reasoning) generation.request.marked_tokens = model->tool_format->markers;
  std::vector<GenerationRequest> choices(generation.n, generation.request);
  for (uint32_t i = 0; i < generation.n; i++) choices[i].sampling.seed += i;
  const std::string id = make_id("chatcmpl");
  ChatShape shape(id, generation, call, *model, std::move(shape_options));
  GenerationRun<ChatShape>::start(call, std::move(model), id, std::move(shape), std::move(choices), generation.n);
}

}  // namespace

void chat_completions(const Call& call) {
  const auto body = call.read_body();
  if (!body) return;
  call.with_model(*body, [call, body](ModelRef model) { answer(call, *body, std::move(model)); });
}

}  // namespace rocmforge::server
