#pragma once
// Writes an answer in the form of Anthropic's Messages API: blocks with their events, or the message object.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/message_shape.h"

namespace rocmforge::server {

class MessagesWriter {
 public:
  struct Options {
    std::string id, model;
    std::vector<std::string> stop = {};  // of the request
    uint32_t n_prompt = 0, n_context = 0;
  };
  explicit MessagesWriter(Options options) : options_(std::move(options)) {}

  ResponseHead stream_head() const;
  static bool keeps_stream() { return false; }
  std::string open(uint32_t choice) const;
  std::string write(uint32_t choice, std::span<const chat::MessageEvent> events, const TokenEvent* with_logprobs);
  std::string close(uint32_t choice, const MessageEnd& end);
  std::string end(const MessageUsage& usage) const;
  std::string whole(std::span<WholeMessage> messages, const MessageUsage& usage);
  static std::string failure(const ApiError& error);

 private:
  template <class Begin>
  std::string begin_block(MessageItem::Kind kind, const Begin& begin);
  std::string end_block();
  template <class Write>
  std::string delta(std::string_view type, const Write& write) const;
  void write_stop(JsonWriter& w, const MessageUsage& usage) const;
  void write_head(JsonWriter& w) const;

  Options options_;
  std::optional<MessageItem::Kind> open_;  // the block that is being written
  bool has_arguments_ = false;             // of the open block
  uint32_t n_blocks_ = 0;                  // that have ended
  MessageEnd end_;
};

}  // namespace rocmforge::server
