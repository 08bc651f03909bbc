#include "server/api/messages_writer.h"

#include <utility>

#include "server/api/body_parts.h"
#include "server/api/call.h"
#include "server/api/events.h"

namespace rocmforge::server {
namespace {

using EventKind = chat::MessageEvent::Kind;
using ItemKind = MessageItem::Kind;

template <class Members>
std::string event(std::string_view type, const Members& members) {
  JsonWriter w;
  w.begin_object().key("type").value(type);
  members(w);
  return "event: " + std::string(type) + "\n" + event_of(w.end_object().take());
}

// What was found in the cache is told apart from what was not.
void write_counts(JsonWriter& w, const RequestUsage& tokens) {
  w.begin_object().key("input_tokens").value(tokens.n_prompt - tokens.n_cached);
  w.key("cache_creation_input_tokens").value(0).key("cache_read_input_tokens").value(tokens.n_cached);
  w.key("output_tokens").value(tokens.n_generated).end_object();
}

// Clients send it back with the thinking; nothing here reads it.
constexpr std::string_view kSignature = "rocmforge";

std::string id_of(const std::string& written) {
  return written.empty() ? make_id("toolu", '_') : written;
}

}  // namespace

ResponseHead MessagesWriter::stream_head() const {
  ResponseHead head = event_stream_head();
  head.ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
  return head;
}

void MessagesWriter::write_head(JsonWriter& w) const {
  w.key("id").value(options_.id).key("type").value("message").key("role").value("assistant");
  w.key("model").value(options_.model);
}

std::string MessagesWriter::open(uint32_t) const {
  std::string out = event("message_start", [&](JsonWriter& w) {
    w.key("message").begin_object();
    write_head(w);
    w.key("content").begin_array().end_array().key("stop_reason").null().key("stop_sequence").null().key("usage");
    write_counts(w, {.n_prompt = options_.n_prompt});
    w.end_object();
  });
  return out + stream_head().ping;
}

template <class Begin>
std::string MessagesWriter::begin_block(ItemKind kind, const Begin& begin) {
  open_ = kind;
  has_arguments_ = false;
  return event("content_block_start", [&](JsonWriter& w) {
    w.key("index").value(n_blocks_).key("content_block").begin_object();
    begin(w);
    w.end_object();
  });
}

template <class Write>
std::string MessagesWriter::delta(std::string_view type, const Write& write) const {
  return event("content_block_delta", [&](JsonWriter& w) {
    w.key("index").value(n_blocks_).key("delta").begin_object().key("type").value(type);
    write(w);
    w.end_object();
  });
}

std::string MessagesWriter::end_block() {
  std::string out;
  if (*open_ == ItemKind::reasoning) {
    out = delta("signature_delta", [](JsonWriter& w) { w.key("signature").value(kSignature); });
  }
  out += event("content_block_stop", [&](JsonWriter& w) { w.key("index").value(n_blocks_); });
  open_.reset();
  n_blocks_++;
  return out;
}

std::string MessagesWriter::write(uint32_t, std::span<const chat::MessageEvent> events, const TokenEvent*) {
  std::string out;
  for (const chat::MessageEvent& one : events) {
    switch (one.kind) {
      case EventKind::reasoning:
        if (open_ && *open_ != ItemKind::reasoning) out += end_block();
        if (!open_) {
          out += begin_block(ItemKind::reasoning, [](JsonWriter& w) {
            w.key("type").value("thinking").key("thinking").value("").key("signature").value("");
          });
        }
        out += delta("thinking_delta", [&](JsonWriter& w) { w.key("thinking").value(one.text); });
        break;
      case EventKind::content:
        if (open_ && *open_ != ItemKind::content) out += end_block();
        if (!open_) {
          out +=
              begin_block(ItemKind::content, [](JsonWriter& w) { w.key("type").value("text").key("text").value(""); });
        }
        out += delta("text_delta", [&](JsonWriter& w) { w.key("text").value(one.text); });
        break;
      case EventKind::call:
        if (open_) out += end_block();
        out += begin_block(ItemKind::call, [&](JsonWriter& w) {
          w.key("type").value("tool_use").key("id").value(id_of(one.id)).key("name").value(one.text);
          w.key("input").begin_object().end_object();
        });
        break;
      case EventKind::arguments:
        has_arguments_ = true;
        out += delta("input_json_delta", [&](JsonWriter& w) { w.key("partial_json").value(one.text); });
        break;
      case EventKind::call_end:
        out += end_block();
        break;
    }
  }
  return out;
}

std::string MessagesWriter::close(uint32_t, const MessageEnd& end) {
  end_ = end;
  return open_ ? end_block() : "";
}

void MessagesWriter::write_stop(JsonWriter& w, const MessageUsage& usage) const {
  const bool is_full = usage.tokens.n_prompt + usage.tokens.n_generated >= options_.n_context;
  const std::string* stop =
      end_.stopped_by && *end_.stopped_by < options_.stop.size() ? &options_.stop[*end_.stopped_by] : nullptr;
  w.key("stop_reason");
  if (end_.reason == FinishReason::length) {
    w.value(is_full ? "model_context_window_exceeded" : "max_tokens");
  } else {
    w.value(stop ? "stop_sequence" : end_.n_calls > 0 ? "tool_use" : "end_turn");
  }
  w.key("stop_sequence");
  stop ? w.value(*stop) : w.null();
}

std::string MessagesWriter::end(const MessageUsage& usage) const {
  std::string out = event("message_delta", [&](JsonWriter& w) {
    w.key("delta").begin_object();
    write_stop(w, usage);
    w.end_object().key("usage");
    write_counts(w, usage.tokens);
  });
  return out + event("message_stop", [](JsonWriter&) {});
}

std::string MessagesWriter::whole(std::span<WholeMessage> messages, const MessageUsage& usage) {
  const WholeMessage& message = messages[0];
  end_ = message.end;
  JsonWriter w;
  w.begin_object();
  write_head(w);
  w.key("content").begin_array();
  for (const MessageItem& item : message.items) {
    w.begin_object().key("type");
    switch (item.kind) {
      case ItemKind::reasoning:
        w.value("thinking").key("thinking").value(item.text).key("signature").value(kSignature);
        break;
      case ItemKind::content:
        w.value("text").key("text").value(item.text);
        break;
      case ItemKind::call: {
        w.value("tool_use").key("id").value(id_of(item.id)).key("name").value(item.name).key("input");
        const auto input = parse_json(item.text);
        // A call that was cut has no arguments that an object could hold.
        input.ok() && input->as<JsonObject>() ? w.value(*input) : w.begin_object().end_object();
        break;
      }
    }
    w.end_object();
  }
  w.end_array();
  write_stop(w, usage);
  w.key("usage");
  write_counts(w, usage.tokens);
  return w.end_object().take();
}

std::string MessagesWriter::failure(const ApiError& error) {
  return "event: error\n" + event_of(error.to_json(Dialect::anthropic));
}

}  // namespace rocmforge::server
