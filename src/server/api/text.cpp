// POST /tokenize, /detokenize, /apply-template

#include "base/utf8.h"
#include "server/api/answer_size.h"
#include "server/api/generation_fields.h"
#include "server/api/prompt.h"
#include "server/api/request_fields.h"
#include "server/api/routes.h"
#include "server/api/tools.h"

namespace rocmforge::server {
namespace {

constexpr size_t kMaxTokenizedBytes = 4u << 20;
constexpr uint64_t kAroundAnswer = 128, kMaxIdBytes = 8, kAroundPiece = 18;  // {"id":,"piece":}

void answer_tokenize(const Call& call, const JsonValue& body, const ServedModel& model) {
  Fields fields(body);
  auto text = fields.text("content", kMaxTokenizedBytes);
  if (!text) text = fields.text("prompt", kMaxTokenizedBytes);  // vLLM's name for it
  const bool add_special = fields.boolean("add_special").value_or(false);
  const bool parse_special = fields.boolean("parse_special").value_or(true);
  const bool with_pieces = fields.boolean("with_pieces").value_or(false);
  if (!text) fields.refuse("content", "must be a string.");
  if (fields.error()) return call.refuse(*fields.error());
  call.tell_ignored(ignored_names(fields));
  const auto tokens =
      model.tokenizer->encode(*text, {.parse_special = parse_special, .add_bos = add_special, .add_eos = add_special});
  if (!tokens.ok()) return call.refuse(ApiError::from(tokens.error()));
  if (call.is_abandoned()) return;
  uint64_t n_bytes = kAroundAnswer + kMaxIdBytes * tokens->size();
  if (with_pieces) {
    for (const TokenId token : *tokens) n_bytes += kAroundPiece + json_text_bytes(model.tokenizer->token_text(token));
  }
  if (!call.hold_answer(n_bytes, "content", "Send the text in parts, or leave 'with_pieces' out.")) return;
  JsonWriter w;
  w.begin_object().key("tokens").begin_array();
  for (const TokenId token : *tokens) {
    if (!with_pieces) {
      w.value(token.value);
      continue;
    }
    w.begin_object().key("id").value(token.value).key("piece").value(to_valid_utf8(model.tokenizer->token_text(token)));
    w.end_object();
  }
  w.end_array().key("count").value(uint64_t{tokens->size()}).key("max_model_len").value(model.n_context);
  call.respond(200, w.end_object().take());
}

void answer_detokenize(const Call& call, const JsonValue& body, const ServedModel& model) {
  Fields fields(body);
  const JsonArray* ids = fields.array("tokens", SIZE_MAX);
  std::optional<std::vector<TokenId>> tokens = std::vector<TokenId>{};
  if (!ids) {
    fields.refuse("tokens", "must be an array of token ids.");
  } else if (!ids->empty()) {
    tokens = read_tokens(fields, "tokens", *ids, *model.tokenizer);
  }
  if (fields.error()) return call.refuse(*fields.error());
  call.tell_ignored(ignored_names(fields));
  uint64_t n_bytes = kAroundAnswer;
  for (const TokenId token : *tokens) n_bytes += json_text_bytes(model.tokenizer->token_text(token));
  if (call.is_abandoned() || !call.hold_answer(n_bytes, "tokens", "Send the tokens in parts.")) return;
  const auto text = model.tokenizer->decode(*tokens, true);
  if (!text.ok()) return call.refuse(ApiError::from(text.error()));
  JsonWriter w;
  w.begin_object().key("content").value(to_valid_utf8(*text));
  call.respond(200, w.end_object().take());
}

void answer_template(const Call& call, const JsonValue& body, const ServedModel& model) {
  Fields fields(body);
  chat::ChatRequest conversation = read_conversation(fields);
  ToolRequest tools = read_tools(fields);
  if (fields.error()) return call.refuse(*fields.error());
  call.tell_ignored(ignored_names(fields, tools.ignored));
  conversation.tools = std::move(tools.tools);
  const auto text = render_conversation(model, conversation);
  if (!text.ok()) return call.refuse(ApiError::from(text.error()));
  const uint64_t n_bytes = kAroundAnswer + json_text_bytes(*text);
  if (call.is_abandoned() || !call.hold_answer(n_bytes, "messages", "Send fewer messages.")) return;
  JsonWriter w;
  w.begin_object().key("prompt").value(*text);
  call.respond(200, w.end_object().take());
}

void begin(const Call& call, void (*answer)(const Call&, const JsonValue&, const ServedModel&)) {
  const auto body = call.read_body();
  if (!body) return;
  call.with_model(*body, [call, body, answer](ModelRef model) { answer(call, *body, *model); });
}

}  // namespace

void tokenize(const Call& call) {
  begin(call, answer_tokenize);
}
void detokenize(const Call& call) {
  begin(call, answer_detokenize);
}
void apply_template(const Call& call) {
  begin(call, answer_template);
}

}  // namespace rocmforge::server
