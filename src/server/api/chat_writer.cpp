#include "server/api/chat_writer.h"

#include <ctime>
#include <utility>

#include "chat/message.h"
#include "server/api/events.h"

namespace rocmforge::server {
namespace {

using Kind = chat::MessageEvent::Kind;

std::string id_of(const std::string& written) {
  return written.empty() ? make_id("call") : written;
}

}  // namespace

ChatWriter::ChatWriter(std::string id, const GenerationFields& fields, const Call& call, const ServedModel& model,
                       Options options)
    : id_(std::move(id)),
      model_name_(fields.model),
      fingerprint_(call.shared->options.fingerprint),
      created_(std::time(nullptr)),
      tokenizer_(model.tokenizer),
      options_(options),
      include_usage_(fields.include_usage),
      want_logprobs_(fields.request.sampling.want_logprobs) {}

std::string_view ChatWriter::finish_name(const MessageEnd& end) const {
  if (end.n_calls == 0 || end.reason != FinishReason::stop) return openai_finish_name(end.reason);
  return options_.has_old_calls ? "function_call" : "tool_calls";
}

std::string ChatWriter::open(uint32_t choice) const {
  return chunk(choice, [](JsonWriter& w) { w.key("role").value("assistant").key("content").value(""); });
}

std::string ChatWriter::close(uint32_t choice, const MessageEnd& end) const {
  return chunk(choice, [](JsonWriter&) {}, nullptr, finish_name(end));
}

std::string ChatWriter::end(const MessageUsage& usage) const {
  std::string out;
  if (include_usage_) {
    JsonWriter w;
    begin(w, "chat.completion.chunk");
    w.key("choices").begin_array().end_array().key("usage");
    write_usage(w, usage.tokens, usage.n_reasoning);
    w.key("timings");
    write_timings(w, usage.tokens, usage.n_choices);
    out = event_of(w.end_object().take());
  }
  return out.append(kDoneEvent);
}

std::string ChatWriter::failure(const ApiError& error) const {
  return event_of(error.to_json()).append(kDoneEvent);
}

std::string ChatWriter::whole(std::span<WholeMessage> messages, const MessageUsage& usage) const {
  JsonWriter w;
  begin(w, "chat.completion");
  w.key("choices").begin_array();
  for (uint32_t i = 0; i < messages.size(); i++) {
    w.begin_object().key("index").value(i).key("message");
    write_message(w, messages[i]);
    w.key("logprobs");
    write_whole_logprobs(w, *messages[i].choice);
    w.key("finish_reason").value(finish_name(messages[i].end)).end_object();
  }
  w.end_array().key("usage");
  write_usage(w, usage.tokens, usage.n_reasoning);
  w.key("timings");
  write_timings(w, usage.tokens, usage.n_choices);
  return w.end_object().take();
}

void ChatWriter::write_message(JsonWriter& w, const WholeMessage& message) const {
  std::string reasoning, content;
  std::vector<chat::ToolCall> calls;
  for (const MessageItem& item : message.items) {
    switch (item.kind) {
      case MessageItem::Kind::reasoning:
        reasoning += item.text;
        break;
      case MessageItem::Kind::content:
        content += item.text;
        break;
      case MessageItem::Kind::call:
        calls.push_back({id_of(item.id), item.name, item.text});
        break;
    }
  }
  w.begin_object().key("role").value("assistant").key("content");
  calls.empty() || !content.empty() ? w.value(content) : w.null();
  w.key("refusal").null();
  if (!reasoning.empty()) write_reasoning(w, reasoning);
  if (!calls.empty() && options_.has_old_calls) {
    w.key("function_call").begin_object().key("name").value(calls[0].name);
    w.key("arguments").value(calls[0].arguments).end_object();
  } else if (!calls.empty()) {
    w.key("tool_calls");
    chat::write_calls(w, calls);
  }
  w.end_object();
}

void ChatWriter::write_whole_logprobs(JsonWriter& w, const ChoiceSoFar& choice) const {
  if (!want_logprobs_) {
    w.null();
    return;
  }
  w.begin_object().key("content").begin_array();
  for (size_t t = 0; t < choice.logprobs.size(); t++) {
    write_chat_logprob(w, *tokenizer_, choice.tokens[t], choice.logprobs[t]);
  }
  w.end_array().key("refusal").null().end_object();
}

void ChatWriter::write_reasoning(JsonWriter& w, const std::string& text) const {
  w.key("reasoning_content").value(text);
  if (options_.reasoning == ReasoningFormat::both) w.key("reasoning").value(text);
}

void ChatWriter::write_delta(JsonWriter& w, const chat::MessageEvent& event) const {
  if (event.kind == Kind::reasoning) return write_reasoning(w, event.text);
  if (event.kind == Kind::content) {
    w.key("content").value(event.text);
    return;
  }
  const bool is_header = event.kind == Kind::call;
  if (!options_.has_old_calls) {
    w.key("tool_calls").begin_array().begin_object().key("index").value(event.index);
    if (is_header) w.key("id").value(id_of(event.id)).key("type").value("function");
    w.key("function");
  } else {
    w.key("function_call");
  }
  w.begin_object();
  if (is_header) w.key("name").value(event.text);
  w.key("arguments").value(is_header ? std::string() : event.text).end_object();
  if (!options_.has_old_calls) w.end_object().end_array();
}

std::string ChatWriter::write(uint32_t choice, std::span<const chat::MessageEvent> events,
                              const TokenEvent* with_logprobs) const {
  std::string out;
  for (const chat::MessageEvent& event : events) {
    if (event.kind == Kind::call_end) continue;
    out += chunk(choice, [&](JsonWriter& w) { write_delta(w, event); }, std::exchange(with_logprobs, nullptr));
  }
  if (with_logprobs) out += chunk(choice, [](JsonWriter& w) { w.key("content").value(""); }, with_logprobs);
  return out;
}

void ChatWriter::begin(JsonWriter& w, const char* object) const {
  w.begin_object().key("id").value(id_).key("object").value(object).key("created").value(created_);
  w.key("model").value(model_name_).key("system_fingerprint").value(fingerprint_);
}

template <class Delta>
std::string ChatWriter::chunk(uint32_t choice, const Delta& delta, const TokenEvent* with_logprobs,
                              std::string_view finish) const {
  JsonWriter w;
  begin(w, "chat.completion.chunk");
  w.key("choices").begin_array().begin_object().key("index").value(choice).key("delta").begin_object();
  delta(w);
  w.end_object().key("logprobs");
  if (with_logprobs) {
    w.begin_object().key("content").begin_array();
    write_chat_logprob(w, *tokenizer_, with_logprobs->token, *with_logprobs->logprobs);
    w.end_array().key("refusal").null().end_object();
  } else {
    w.null();
  }
  w.key("finish_reason");
  finish.empty() ? w.null() : w.value(finish);
  w.end_object().end_array();
  if (include_usage_) w.key("usage").null();
  return event_of(w.end_object().take());
}

}  // namespace rocmforge::server
