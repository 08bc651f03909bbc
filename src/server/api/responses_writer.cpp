#include "server/api/responses_writer.h"

#include <ctime>
#include <utility>

#include "server/api/body_parts.h"
#include "server/api/events.h"
#include "server/api/responses_request.h"

namespace rocmforge::server {
namespace {

using EventKind = chat::MessageEvent::Kind;
using ItemKind = MessageItem::Kind;

constexpr std::string_view kInProgress = "in_progress", kCompleted = "completed", kIncomplete = "incomplete";

// JSON text as the value of a member.
void append_member(std::string& out, std::string_view key, std::string_view json) {
  out += ",\"";
  out += key;
  out += "\":";
  out += json;
}

std::string list_of(std::string_view items) {
  return "[" + std::string(items) + "]";
}

}  // namespace

ResponsesWriter::ResponsesWriter(Options options, const tokenizer::Tokenizer& tokenizer, Keep keep)
    : options_(std::move(options)), tokenizer_(&tokenizer), keep_(std::move(keep)), created_(std::time(nullptr)) {
  for (const auto& [key, value] : options_.echo) append_member(echo_, key, json_of(value));
  options_.echo.clear();
}

ResponseHead ResponsesWriter::stream_head() const {
  ResponseHead head = event_stream_head();
  // Clients give up on a stream without events; comments are none. The second event again: it says nothing new.
  head.ping =
      "event: response.in_progress\ndata: {\"type\":\"response.in_progress\",\"sequence_number\":1,\"response\":" +
      object(kInProgress, nullptr, nullptr) + "}\n\n";
  return head;
}

template <class Members>
std::string ResponsesWriter::event(std::string_view type, const Members& members) {
  JsonWriter w;
  w.begin_object().key("type").value(type).key("sequence_number").value(sequence_++);
  members(w);
  return "event: " + std::string(type) + "\n" + event_of(w.end_object().take());
}

template <class Members>
std::string ResponsesWriter::item_event(std::string_view type, bool has_part, const Members& members) {
  return event(type, [&](JsonWriter& w) {
    w.key("item_id").value(open_->id).key("output_index").value(uint64_t{done_.size()});
    if (has_part) w.key("content_index").value(0);
    members(w);
  });
}

std::string ResponsesWriter::object_event(std::string_view type, const std::string& json) {
  std::string out = event(type, [](JsonWriter&) {});
  out.insert(out.size() - 3, ",\"response\":" + json);  // before }\n\n
  return out;
}

std::string ResponsesWriter::open(uint32_t) {
  const std::string json = object(kInProgress, nullptr, nullptr);
  std::string out = object_event("response.created", json);
  out += object_event("response.in_progress", json);
  return out;
}

std::string ResponsesWriter::write(uint32_t, std::span<const chat::MessageEvent> events,
                                   const TokenEvent* with_logprobs) {
  std::string out;
  if (with_logprobs && options_.want_logprobs) {
    JsonWriter w;
    write_chat_logprob(w, *tokenizer_, with_logprobs->token, *with_logprobs->logprobs);
    if (!new_logprobs_.empty()) new_logprobs_ += ',';
    new_logprobs_ += w.take();
  }
  for (const chat::MessageEvent& one : events) {
    switch (one.kind) {
      case EventKind::reasoning:
      case EventKind::content: {
        const ItemKind kind = one.kind == EventKind::content ? ItemKind::content : ItemKind::reasoning;
        if (open_ && open_->kind != kind) out += end_item(kCompleted);
        if (!open_) out += begin_item(kind, {}, {});
        out += add_text(one.text);
        break;
      }
      case EventKind::call:
        if (open_) out += end_item(kCompleted);
        new_logprobs_.clear();
        out += begin_item(ItemKind::call, one.text, one.id.empty() ? make_id("call", '_') : one.id);
        break;
      case EventKind::arguments:
        open_->text += one.text;
        if (open_->is_custom) break;  // its text stands inside of JSON: told when that is whole
        out += item_event("response.function_call_arguments.delta", false,
                          [&](JsonWriter& w) { w.key("delta").value(one.text); });
        break;
      case EventKind::call_end:
        out += end_item(kCompleted);
        break;
    }
  }
  return out;
}

std::string ResponsesWriter::begin_item(ItemKind kind, std::string name, std::string call_id) {
  open_ = OpenItem{.kind = kind, .name = std::move(name), .call_id = std::move(call_id)};
  open_->is_custom = kind == ItemKind::call && options_.custom_tools.contains(open_->name);
  const char* call_prefix = open_->is_custom ? "ctc" : "fc";
  open_->id = make_id(kind == ItemKind::call ? call_prefix : kind == ItemKind::content ? "msg" : "rs", '_');
  logprobs_.clear();
  std::string out = event("response.output_item.added", [&](JsonWriter& w) {
    w.key("output_index").value(uint64_t{done_.size()}).key("item");
    write_item(w, kInProgress);
  });
  if (kind == ItemKind::call) return out;
  return out + item_event("response.content_part.added", true, [&](JsonWriter& w) {
           w.key("part");
           write_part(w);
         });
}

std::string ResponsesWriter::add_text(const std::string& text) {
  open_->text += text;
  if (open_->kind == ItemKind::reasoning) {
    new_logprobs_.clear();
    return item_event("response.reasoning_text.delta", true, [&](JsonWriter& w) { w.key("delta").value(text); });
  }
  std::string out = item_event("response.output_text.delta", true, [&](JsonWriter& w) { w.key("delta").value(text); });
  const std::string fresh = std::exchange(new_logprobs_, {});
  out.insert(out.size() - 3, ",\"logprobs\":" + list_of(fresh));
  if (!logprobs_.empty() && !fresh.empty()) logprobs_ += ',';
  logprobs_ += fresh;
  return out;
}

std::string ResponsesWriter::end_item(std::string_view status) {
  std::string out;
  const auto text_done = [&](std::string_view type) {
    return item_event(type, true, [&](JsonWriter& w) { w.key("text").value(open_->text); });
  };
  switch (open_->kind) {
    case ItemKind::content:
      out = text_done("response.output_text.done");
      out.insert(out.size() - 3, ",\"logprobs\":" + list_of(logprobs_));
      break;
    case ItemKind::reasoning:
      out = text_done("response.reasoning_text.done");
      break;
    case ItemKind::call: {
      if (!open_->is_custom) {
        out = item_event("response.function_call_arguments.done", false,
                         [&](JsonWriter& w) { w.key("name").value(open_->name).key("arguments").value(open_->text); });
        break;
      }
      const auto parsed = parse_json(open_->text);
      const std::string* input = parsed.ok() ? text_in(*parsed, "input") : nullptr;
      if (input) open_->text = std::string(*input);  // else what the model wrote, as it stands
      out = item_event("response.custom_tool_call_input.delta", false,
                       [&](JsonWriter& w) { w.key("delta").value(open_->text); });
      out += item_event("response.custom_tool_call_input.done", false,
                        [&](JsonWriter& w) { w.key("input").value(open_->text); });
      break;
    }
  }
  if (open_->kind != ItemKind::call) {
    out += item_event("response.content_part.done", true, [&](JsonWriter& w) {
      w.key("part");
      write_part(w);
    });
  }
  JsonWriter item;
  write_item(item, status);
  std::string json = item.take();
  out +=
      event("response.output_item.done", [&](JsonWriter& w) { w.key("output_index").value(uint64_t{done_.size()}); });
  out.insert(out.size() - 3, ",\"item\":" + json);
  done_.push_back({open_->id, std::move(json)});
  open_.reset();
  return out;
}

void ResponsesWriter::write_part(JsonWriter& w) const {
  w.begin_object();
  if (open_->kind == ItemKind::reasoning) {
    w.key("type").value("reasoning_text").key("text").value(open_->text).end_object();
    return;
  }
  w.key("type").value("output_text").key("text").value(open_->text).key("annotations").begin_array().end_array();
  w.key("logprobs").begin_array();
  w.buffer() += logprobs_;
  w.end_array().end_object();
}

// Before its end an item has no text yet.
void ResponsesWriter::write_item(JsonWriter& w, std::string_view status) const {
  const bool is_new = status == kInProgress;
  w.begin_object().key("id").value(open_->id).key("type");
  switch (open_->kind) {
    case ItemKind::reasoning:
      w.value("reasoning").key("summary").begin_array().end_array().key("content").begin_array();
      if (!is_new) write_part(w);
      w.end_array();
      if (options_.seals_reasoning) w.key("encrypted_content").value(seal(open_->text));
      w.key("status").value(status);
      break;
    case ItemKind::content:
      w.value("message").key("status").value(status).key("role").value("assistant").key("content").begin_array();
      if (!is_new) write_part(w);
      w.end_array();
      break;
    case ItemKind::call:
      w.value(open_->is_custom ? "custom_tool_call" : "function_call").key("status").value(status);
      w.key("call_id").value(open_->call_id).key("name").value(open_->name);
      w.key(open_->is_custom ? "input" : "arguments").value(open_->text);
      break;
  }
  w.end_object();
}

std::string ResponsesWriter::close(uint32_t, const MessageEnd& end) {
  end_ = end;
  return open_ ? end_item(end.reason == FinishReason::stop ? kCompleted : kIncomplete) : "";
}

std::string_view ResponsesWriter::status() const {
  if (end_.reason == FinishReason::length) return "incomplete";
  return end_.reason == FinishReason::cancelled ? "cancelled" : "completed";
}

std::string ResponsesWriter::object(std::string_view status, const MessageUsage* usage, const ApiError* error) const {
  JsonWriter w;
  w.begin_object().key("id").value(options_.id).key("object").value("response").key("created_at").value(created_);
  w.key("status").value(status).key("background").value(options_.is_background).key("error");
  if (error) {
    w.begin_object().key("code").value(error->code.empty() ? "server_error" : error->code);
    w.key("message").value(error->message).end_object();
  } else {
    w.null();
  }
  w.key("incomplete_details");
  if (status == "incomplete") {
    w.begin_object().key("reason").value("max_output_tokens").end_object();
  } else {
    w.null();
  }
  w.key("model").value(options_.model).key("service_tier").value("default").key("store").value(options_.is_stored);
  w.key("usage");
  if (usage) {
    const RequestUsage& tokens = usage->tokens;
    w.begin_object().key("input_tokens").value(tokens.n_prompt).key("input_tokens_details").begin_object();
    w.key("cached_tokens").value(tokens.n_cached).end_object().key("output_tokens").value(tokens.n_generated);
    w.key("output_tokens_details").begin_object().key("reasoning_tokens").value(usage->n_reasoning).end_object();
    w.key("total_tokens").value(uint64_t{tokens.n_prompt} + tokens.n_generated).end_object();
  } else {
    w.null();
  }
  std::string out = w.end_object().take();
  out.pop_back();
  std::string items;
  for (const StoredItem& item : done_) {
    if (!items.empty()) items += ',';
    items += item.json;
  }
  append_member(out, "output", list_of(items));
  return out + echo_ + "}";
}

std::string ResponsesWriter::finish(std::string_view status, const MessageUsage* usage, const ApiError* error) {
  std::string json = object(status, usage, error);
  if (keep_) keep_(json, done_);
  return json;
}

std::string ResponsesWriter::end(const MessageUsage& usage) {
  const std::string_view how = status();
  const std::string type = "response." + std::string(how == "cancelled" ? "completed" : how);
  return object_event(type, finish(how, &usage, nullptr));
}

// Of the answer's tokens, those after the reasoning.
std::string ResponsesWriter::logprobs_of(const WholeMessage& message, uint64_t n_reasoning) const {
  std::string out;
  if (!options_.want_logprobs) return out;
  const ChoiceSoFar& choice = *message.choice;
  for (size_t t = n_reasoning == 0 ? 0 : n_reasoning + 1; t < choice.logprobs.size(); t++) {
    JsonWriter w;
    write_chat_logprob(w, *tokenizer_, choice.tokens[t], choice.logprobs[t]);
    if (!out.empty()) out += ',';
    out += w.take();
  }
  return out;
}

std::string ResponsesWriter::whole(std::span<WholeMessage> messages, const MessageUsage& usage) {
  WholeMessage& message = messages[0];
  for (MessageItem& item : message.items) {
    const bool is_call = item.kind == ItemKind::call;
    (void)begin_item(item.kind, std::move(item.name), item.id.empty() && is_call ? make_id("call", '_') : item.id);
    open_->text = std::move(item.text);
    if (item.kind == ItemKind::content) logprobs_ = logprobs_of(message, usage.n_reasoning);
    const bool is_last = &item == &message.items.back();
    (void)end_item(!is_last || item.is_complete || message.end.reason == FinishReason::stop ? kCompleted : kIncomplete);
  }
  end_ = message.end;
  return finish(status(), &usage, nullptr);
}

std::string ResponsesWriter::failure(const ApiError& error) {
  std::string out = open_ ? end_item(kIncomplete) : "";
  return out + object_event("response.failed", finish("failed", nullptr, &error));
}

}  // namespace rocmforge::server
