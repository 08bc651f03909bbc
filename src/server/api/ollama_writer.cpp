#include "server/api/ollama_writer.h"

#include <cmath>
#include <utility>

#include "server/api/body_parts.h"
#include "server/api/call.h"
#include "server/api/events.h"
#include "server/api/times.h"

namespace rocmforge::server {
namespace {

using EventKind = chat::MessageEvent::Kind;
using ItemKind = MessageItem::Kind;

int64_t nanoseconds(double seconds) {
  return std::llround(seconds * 1e9);
}

}  // namespace

ResponseHead OllamaWriter::stream_head() {
  return {.content_type = "application/x-ndjson",
          .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}};
}

void OllamaWriter::begin(JsonWriter& w) const {
  w.begin_object().key("model").value(model_).key("created_at").value(rfc3339_now());
}

void OllamaWriter::write_text(JsonWriter& w, std::string_view content, std::string_view thinking,
                              std::span<const MessageItem> calls) const {
  if (kind_ == OllamaAnswer::generate) {
    w.key("response").value(content);
    if (!thinking.empty()) w.key("thinking").value(thinking);
    return;
  }
  w.key("message").begin_object().key("role").value("assistant").key("content").value(content);
  if (!thinking.empty()) w.key("thinking").value(thinking);
  if (!calls.empty()) {
    w.key("tool_calls").begin_array();
    for (const MessageItem& call : calls) {
      w.begin_object().key("id").value(call.id.empty() ? make_id("call", '_') : call.id).key("function").begin_object();
      w.key("index").value(n_calls_++).key("name").value(call.name).key("arguments");
      const auto arguments = parse_json(call.text);
      // A call that was cut has no arguments that an object could hold.
      arguments.ok() && arguments->as<JsonObject>() ? w.value(*arguments) : w.begin_object().end_object();
      w.end_object().end_object();
    }
    w.end_array();
  }
  w.end_object();
}

std::string OllamaWriter::line(std::string_view content, std::string_view thinking, std::span<const MessageItem> calls,
                               const TokenEvent* with_logprobs) const {
  JsonWriter w;
  begin(w);
  write_text(w, content, thinking, calls);
  w.key("done").value(false);
  if (with_logprobs) {
    w.key("logprobs").begin_array();
    write_chat_logprob(w, *tokenizer_, with_logprobs->token, *with_logprobs->logprobs);
    w.end_array();
  }
  return w.end_object().take() + "\n";
}

std::string OllamaWriter::write(uint32_t, std::span<const chat::MessageEvent> events, const TokenEvent* with_logprobs) {
  std::string out;
  for (const chat::MessageEvent& one : events) {
    switch (one.kind) {
      case EventKind::reasoning:
        out += line("", one.text, {}, std::exchange(with_logprobs, nullptr));
        break;
      case EventKind::content:
        out += line(one.text, "", {}, std::exchange(with_logprobs, nullptr));
        break;
      case EventKind::call:
        call_ = {.kind = ItemKind::call, .name = one.text, .id = one.id};
        break;
      case EventKind::arguments:
        call_.text += one.text;
        break;
      case EventKind::call_end:
        out += line("", "", {&call_, 1}, std::exchange(with_logprobs, nullptr));
        call_ = {};
        break;
    }
  }
  if (with_logprobs) out += line("", "", {}, with_logprobs);
  return out;
}

std::string OllamaWriter::close(uint32_t, const MessageEnd& end) {
  end_ = end;
  // A call that was cut is told, too.
  return call_.name.empty() ? "" : line("", "", {&call_, 1}, nullptr);
}

void OllamaWriter::write_end(JsonWriter& w, const MessageUsage& usage) const {
  const RequestUsage& tokens = usage.tokens;
  w.key("done").value(true).key("done_reason").value(end_.reason == FinishReason::length ? "length" : "stop");
  w.key("total_duration").value(nanoseconds(tokens.queue_seconds + tokens.prefill_seconds + tokens.decode_seconds));
  w.key("load_duration").value(nanoseconds(tokens.queue_seconds));
  w.key("prompt_eval_count")
      .value(tokens.n_prompt)
      .key("prompt_eval_duration")
      .value(nanoseconds(tokens.prefill_seconds));
  w.key("eval_count").value(tokens.n_generated).key("eval_duration").value(nanoseconds(tokens.decode_seconds));
}

std::string OllamaWriter::end(const MessageUsage& usage) const {
  JsonWriter w;
  begin(w);
  write_text(w, "", "", {});
  write_end(w, usage);
  return w.end_object().take() + "\n";
}

std::string OllamaWriter::whole(std::span<WholeMessage> messages, const MessageUsage& usage) {
  WholeMessage& message = messages[0];
  end_ = message.end;
  std::string content, thinking;
  std::vector<MessageItem> calls;
  for (MessageItem& item : message.items) {
    if (item.kind == ItemKind::reasoning) thinking += item.text;
    if (item.kind == ItemKind::content) content += item.text;
    if (item.kind == ItemKind::call) calls.push_back(std::move(item));
  }
  JsonWriter w;
  begin(w);
  write_text(w, content, thinking, calls);
  const ChoiceSoFar& choice = *message.choice;
  if (!choice.logprobs.empty()) {
    w.key("logprobs").begin_array();
    for (size_t t = 0; t < choice.logprobs.size(); t++) {
      write_chat_logprob(w, *tokenizer_, choice.tokens[t], choice.logprobs[t]);
    }
    w.end_array();
  }
  write_end(w, usage);
  return w.end_object().take();
}

std::string OllamaWriter::loaded(std::string_view reason) const {
  JsonWriter w;
  begin(w);
  write_text(w, "", "", {});
  return w.key("done").value(true).key("done_reason").value(reason).end_object().take();
}

std::string OllamaWriter::failure(const ApiError& error) {
  return error.to_json(Dialect::ollama) + "\n";
}

}  // namespace rocmforge::server
