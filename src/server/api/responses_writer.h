#pragma once
// Writes an answer in the form of the Responses API: its items with their events, or the response object.
//
// The object holds every item, and the last event of a stream holds the object: what was written is kept (see
// GenerationRun, which counts the bytes).

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/call.h"
#include "server/api/message_shape.h"
#include "server/api/response_store.h"

namespace rocmforge::server {

class ResponsesWriter {
 public:
  struct Options {
    std::string id, model;
    JsonObject echo = {};  // members of the object that repeat the request
    std::set<std::string, std::less<>> custom_tools = {};
    bool is_background = false, is_stored = true;
    bool want_logprobs = false, seals_reasoning = false;
    std::shared_ptr<const void> held = {};  // counts what the request left behind here and in `keep`
  };
  // Called once, at the end, with the object and the output's items.
  using Keep = std::function<void(std::string json, std::vector<StoredItem> output)>;

  ResponsesWriter(Options options, const tokenizer::Tokenizer& tokenizer, Keep keep);

  ResponseHead stream_head() const;
  static bool keeps_stream() { return true; }
  std::string open(uint32_t choice);
  std::string write(uint32_t choice, std::span<const chat::MessageEvent> events, const TokenEvent* with_logprobs);
  std::string close(uint32_t choice, const MessageEnd& end);
  std::string end(const MessageUsage& usage);
  std::string whole(std::span<WholeMessage> messages, const MessageUsage& usage);
  std::string failure(const ApiError& error);

  // The object before the first item.
  std::string pending(std::string_view status) const { return object(status, nullptr, nullptr); }

 private:
  struct OpenItem {
    MessageItem::Kind kind = MessageItem::Kind::content;
    std::string id = {}, text = {}, name = {}, call_id = {};
    bool is_custom = false;
  };

  std::string begin_item(MessageItem::Kind kind, std::string name, std::string call_id);
  std::string add_text(const std::string& text);
  std::string logprobs_of(const WholeMessage& message, uint64_t n_reasoning) const;
  std::string end_item(std::string_view status);
  // One event; `members` writes its members besides type and sequence_number.
  template <class Members>
  std::string event(std::string_view type, const Members& members);
  template <class Members>
  std::string item_event(std::string_view type, bool has_part, const Members& members);
  std::string object_event(std::string_view type, const std::string& json);
  void write_item(JsonWriter& w, std::string_view status) const;
  void write_part(JsonWriter& w) const;
  std::string object(std::string_view status, const MessageUsage* usage, const ApiError* error) const;
  std::string_view status() const;
  std::string finish(std::string_view status, const MessageUsage* usage, const ApiError* error);

  Options options_;
  const tokenizer::Tokenizer* tokenizer_;  // the run holds the model
  Keep keep_;
  int64_t created_;
  std::string echo_;  // the members of the object that come from the request
  std::optional<OpenItem> open_;
  std::string logprobs_;      // of the open item's text, as JSON: a list without its brackets
  std::string new_logprobs_;  // of text that is still held back
  std::vector<StoredItem> done_;
  MessageEnd end_;
  uint64_t sequence_ = 0;
};

}  // namespace rocmforge::server
