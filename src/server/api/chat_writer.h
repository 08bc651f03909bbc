#pragma once
// Writes answers in the form of chat completions: chunks of a stream, or one object.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/message_parser.h"
#include "server/api/call.h"
#include "server/api/generation_fields.h"
#include "server/api/message_shape.h"
#include "server/api/served_model.h"

namespace rocmforge::server {

// Where what the model thinks goes: into the content, into reasoning_content (llama.cpp's name, DeepSeek's), or into
// reasoning (vLLM's) as well.
enum class ReasoningFormat : uint8_t { none, apart, both };

class ChatWriter {
 public:
  struct Options {
    ReasoningFormat reasoning = ReasoningFormat::apart;
    bool has_old_calls = false;  // one function_call instead of tool_calls
  };

  ChatWriter(std::string id, const GenerationFields& fields, const Call& call, const ServedModel& model,
             Options options);

  ResponseHead stream_head() const { return event_stream_head(); }
  static bool keeps_stream() { return false; }
  std::string open(uint32_t choice) const;
  // A chunk for each part that has text; one without any when there are logprobs to send.
  std::string write(uint32_t choice, std::span<const chat::MessageEvent> events, const TokenEvent* with_logprobs) const;
  std::string close(uint32_t choice, const MessageEnd& end) const;
  std::string end(const MessageUsage& usage) const;
  std::string whole(std::span<WholeMessage> messages, const MessageUsage& usage) const;
  std::string failure(const ApiError& error) const;

 private:
  std::string_view finish_name(const MessageEnd& end) const;
  void write_message(JsonWriter& w, const WholeMessage& message) const;
  void write_delta(JsonWriter& w, const chat::MessageEvent& event) const;
  void write_reasoning(JsonWriter& w, const std::string& text) const;
  void write_whole_logprobs(JsonWriter& w, const ChoiceSoFar& choice) const;
  void begin(JsonWriter& w, const char* object) const;
  template <class Delta>
  std::string chunk(uint32_t choice, const Delta& delta, const TokenEvent* with_logprobs = nullptr,
                    std::string_view finish = {}) const;

  std::string id_, model_name_, fingerprint_;
  int64_t created_;
  const tokenizer::Tokenizer* tokenizer_;  // the run holds the model
  Options options_;
  bool include_usage_, want_logprobs_;
};

}  // namespace rocmforge::server
