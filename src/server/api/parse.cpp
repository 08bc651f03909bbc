// POST /parse: what a model wrote, told apart into reasoning, content and tool calls.

#include "chat/message.h"
#include "chat/pattern.h"
#include "server/api/answer_size.h"
#include "server/api/request_fields.h"
#include "server/api/routes.h"
#include "server/api/tools.h"

namespace rocmforge::server {
namespace {

constexpr size_t kMaxSpecial = 256, kMaxSpecialBytes = 256;
constexpr uint64_t kAroundAnswer = 1024;

std::vector<std::string> read_special(Fields& fields) {
  std::vector<std::string> out;
  const JsonArray* special = fields.array("special", kMaxSpecial);
  for (const JsonValue& one : special ? *special : JsonArray{}) {
    const auto* text = one.as<std::string>();
    if (!text || text->empty() || text->size() > kMaxSpecialBytes) {
      fields.refuse("special", "must hold strings that are not empty.");
      break;
    }
    out.push_back(*text);
  }
  return out;
}

void answer(const Call& call, const JsonValue& body, const ServedModel* model) {
  Fields fields(body);
  fields.text("model");
  chat::ParserOptions options;
  const auto text = fields.text("text");
  if (!text) fields.refuse("text", "must be a string.");
  if (const auto name = fields.text("format", 64)) {
    options.format = chat::find_tool_format(*name);
    if (!options.format) fields.refuse("format", "is none of the formats that `rocmforge parse --list` names.");
  }
  const ToolRequest tools = read_tools(fields);
  options.tools = tools.set;
  options.prompt_tail = fields.text("prompt_tail").value_or("");
  options.control = read_special(fields);
  const auto n_piece = static_cast<size_t>(fields.integer("chunks", 0, INT32_MAX).value_or(0));
  options.tells_early = fields.boolean("stream").value_or(false);
  if (fields.error()) return call.refuse(*fields.error());
  call.tell_ignored(ignored_names(fields, tools.ignored));
  if (!options.format) options.format = model->tool_format->format;
  if (model)
    options.control.insert(options.control.end(), model->tool_format->control.begin(),
                           model->tool_format->control.end());
  const uint64_t n_bytes = kAroundAnswer + 2 * json_text_bytes(*text);
  if (!call.hold_answer(n_bytes, "text", "Send a shorter text.")) return;
  const chat::Message message = chat::parse_message(chat::mark_controls(*text, options.control), options, n_piece);
  JsonWriter w;
  chat::write_message(w, message);
  call.respond(200, w.take());
}

}  // namespace

void parse_text(const Call& call) {
  const auto body = call.read_body();
  if (!body) return;
  // With a format no model is needed.
  if (const JsonValue* format = body->find("format"); format && !format->is_null()) return answer(call, *body, nullptr);
  call.with_model(*body, [call, body](ModelRef model) { answer(call, *body, model.get()); });
}

}  // namespace rocmforge::server
