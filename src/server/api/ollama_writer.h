#pragma once
// Writes an answer in the form of Ollama: one JSON object a line. Calls are written whole, with objects as arguments.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "server/api/message_shape.h"
#include "server/api/ollama_request.h"

namespace rocmforge::server {

class OllamaWriter {
 public:
  OllamaWriter(OllamaAnswer kind, std::string model, const tokenizer::Tokenizer& tokenizer)
      : kind_(kind), model_(std::move(model)), tokenizer_(&tokenizer) {}

  static ResponseHead stream_head();
  static bool keeps_stream() { return false; }
  static std::string open(uint32_t) { return {}; }
  std::string write(uint32_t choice, std::span<const chat::MessageEvent> events, const TokenEvent* with_logprobs);
  std::string close(uint32_t choice, const MessageEnd& end);
  std::string end(const MessageUsage& usage) const;
  std::string whole(std::span<WholeMessage> messages, const MessageUsage& usage);
  static std::string failure(const ApiError& error);

  // The answer to a request without a prompt.
  std::string loaded(std::string_view reason) const;

 private:
  void begin(JsonWriter& w) const;
  void write_text(JsonWriter& w, std::string_view content, std::string_view thinking,
                  std::span<const MessageItem> calls) const;
  void write_end(JsonWriter& w, const MessageUsage& usage) const;
  std::string line(std::string_view content, std::string_view thinking, std::span<const MessageItem> calls,
                   const TokenEvent* with_logprobs) const;

  OllamaAnswer kind_;
  std::string model_;
  const tokenizer::Tokenizer* tokenizer_;  // the run holds the model
  MessageItem call_;                       // being written
  mutable uint32_t n_calls_ = 0;           // written
  MessageEnd end_;
};

}  // namespace rocmforge::server
