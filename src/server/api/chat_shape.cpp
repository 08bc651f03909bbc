#include "server/api/chat_shape.h"

#include <ctime>
#include <utility>

#include "server/api/events.h"
#include "tokenizer/stream_decoder.h"

namespace rocmforge::server {
namespace {

using Kind = chat::MessageEvent::Kind;

std::string id_of(const std::string& written) {
  return written.empty() ? make_id("call") : written;
}

}  // namespace

ChatShape::ChatShape(std::string id, const GenerationFields& fields, const Call& call, const ServedModel& model,
                     Options options)
    : id_(std::move(id)),
      model_name_(fields.model),
      fingerprint_(call.shared->options.fingerprint),
      created_(std::time(nullptr)),
      tokenizer_(model.tokenizer),
      format_(model.tool_format),
      options_(std::move(options)),
      is_stream_(fields.stream),
      include_usage_(fields.include_usage),
      want_logprobs_(fields.request.sampling.want_logprobs) {
  for (uint32_t i = 0; i < fields.n; i++) parsers_.emplace_back(options_.parser);
}

std::string_view ChatShape::finish_name(FinishReason reason, size_t n_calls) const {
  if (n_calls == 0 || reason != FinishReason::stop) return openai_finish_name(reason);
  return options_.has_old_calls ? "function_call" : "tool_calls";
}

std::string ChatShape::first(uint32_t choice) const {
  return chunk(choice, [](JsonWriter& w) { w.key("role").value("assistant").key("content").value(""); });
}

std::string ChatShape::token(uint32_t choice, const TokenEvent& event) {
  const Events events = parsers_[choice].push(event.text);
  if (parsers_[choice].is_reasoning()) n_reasoning_++;
  return chunks(choice, events, event.logprobs ? &event : nullptr);
}

std::string ChatShape::last(uint32_t choice, const ChoiceSoFar&, const FinishEvent& event) {
  chat::MessageParser& parser = parsers_[choice];
  std::string out = chunks(choice, parser.push(event.text));
  out += chunks(choice, parser.finish());
  return out + chunk(choice, [](JsonWriter&) {}, nullptr, finish_name(event.reason, parser.n_calls()));
}

std::string ChatShape::end(const RequestUsage& total) const {
  std::string out;
  if (include_usage_) {
    JsonWriter w;
    begin(w, "chat.completion.chunk");
    w.key("choices").begin_array().end_array().key("usage");
    write_usage(w, total, n_reasoning_);
    w.key("timings");
    write_timings(w, total, n_choices());
    out = event_of(w.end_object().take());
  }
  return out.append(kDoneEvent);
}

std::string ChatShape::whole(std::span<const ChoiceSoFar> choices, const RequestUsage& total) {
  JsonWriter w;
  begin(w, "chat.completion");
  w.key("choices").begin_array();
  for (uint32_t i = 0; i < choices.size(); i++) {
    const ChoiceSoFar& choice = choices[i];
    chat::Message message;
    message.add(parsers_[i].push(choice.text));
    message.add(parsers_[i].finish());
    if (!message.reasoning.empty()) n_reasoning_ += count_reasoning(choice);
    w.begin_object().key("index").value(i).key("message");
    write_message(w, choice, message);
    w.key("logprobs");
    write_whole_logprobs(w, choice);
    w.key("finish_reason").value(finish_name(choice.reason, message.calls.size())).end_object();
  }
  w.end_array().key("usage");
  write_usage(w, total, n_reasoning_);
  w.key("timings");
  write_timings(w, total, n_choices());
  return w.end_object().take();
}

void ChatShape::write_message(JsonWriter& w, const ChoiceSoFar&, chat::Message& message) const {
  w.begin_object().key("role").value("assistant").key("content");
  message.calls.empty() || !message.content.empty() ? w.value(message.content) : w.null();
  w.key("refusal").null();
  if (!message.reasoning.empty()) write_reasoning(w, message.reasoning);
  if (!message.calls.empty() && options_.has_old_calls) {
    w.key("function_call").begin_object().key("name").value(message.calls[0].name);
    w.key("arguments").value(message.calls[0].arguments).end_object();
  } else if (!message.calls.empty()) {
    for (chat::ToolCall& one : message.calls) one.id = id_of(one.id);
    w.key("tool_calls");
    chat::write_calls(w, message.calls);
  }
  w.end_object();
}

void ChatShape::write_whole_logprobs(JsonWriter& w, const ChoiceSoFar& choice) const {
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

// The tokens behind which the model was still thinking, as a stream counts them.
uint64_t ChatShape::count_reasoning(const ChoiceSoFar& choice) const {
  chat::MessageParser parser(options_.parser);
  tokenizer::StreamDecoder decoder(*tokenizer_, {.marked = format_->markers});
  uint64_t n = 0;
  for (const TokenId token : choice.tokens) {
    if (tokenizer_->contains(token)) parser.push(decoder.push(token).text);
    n += parser.is_reasoning() ? 1 : 0;
  }
  return n;
}

void ChatShape::write_reasoning(JsonWriter& w, const std::string& text) const {
  w.key("reasoning_content").value(text);
  if (options_.reasoning == ReasoningFormat::both) w.key("reasoning").value(text);
}

void ChatShape::write_delta(JsonWriter& w, const chat::MessageEvent& event) const {
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

std::string ChatShape::chunks(uint32_t choice, const Events& events, const TokenEvent* with_logprobs) const {
  std::string out;
  for (const chat::MessageEvent& event : events) {
    if (event.kind == Kind::call_end) continue;
    out += chunk(choice, [&](JsonWriter& w) { write_delta(w, event); }, std::exchange(with_logprobs, nullptr));
  }
  if (with_logprobs) out += chunk(choice, [](JsonWriter& w) { w.key("content").value(""); }, with_logprobs);
  return out;
}

void ChatShape::begin(JsonWriter& w, const char* object) const {
  w.begin_object().key("id").value(id_).key("object").value(object).key("created").value(created_);
  w.key("model").value(model_name_).key("system_fingerprint").value(fingerprint_);
}

template <class Delta>
std::string ChatShape::chunk(uint32_t choice, const Delta& delta, const TokenEvent* with_logprobs,
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
