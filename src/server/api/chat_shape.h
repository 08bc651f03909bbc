#pragma once
// How the answers of chat completions look: chunks of a stream, or one object.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/message.h"
#include "chat/message_parser.h"
#include "server/api/call.h"
#include "server/api/generation_fields.h"
#include "server/api/generation_run.h"
#include "server/api/served_model.h"

namespace rocmforge::server {

// Where what the model thinks goes: into the content, into reasoning_content (llama.cpp's name, DeepSeek's), or into
// reasoning (vLLM's) as well.
enum class ReasoningFormat : uint8_t { none, apart, both };

class ChatShape {
 public:
  struct Options {
    ReasoningFormat reasoning = ReasoningFormat::apart;
    chat::ParserOptions parser;
    bool has_old_calls = false;  // one function_call instead of tool_calls
  };

  ChatShape(std::string id, const GenerationFields& fields, const Call& call, const ServedModel& model,
            Options options);

  bool is_stream() const { return is_stream_; }
  std::string first(uint32_t choice) const;
  std::string token(uint32_t choice, const TokenEvent& event);
  std::string last(uint32_t choice, const ChoiceSoFar& so_far, const FinishEvent& event);
  std::string end(const RequestUsage& total) const;
  std::string whole(std::span<const ChoiceSoFar> choices, const RequestUsage& total);

 private:
  using Events = std::vector<chat::MessageEvent>;

  uint32_t n_choices() const { return static_cast<uint32_t>(parsers_.size()); }
  std::string_view finish_name(FinishReason reason, size_t n_calls) const;
  uint64_t count_reasoning(const ChoiceSoFar& choice) const;
  void write_message(JsonWriter& w, const ChoiceSoFar& choice, chat::Message& message) const;
  void write_delta(JsonWriter& w, const chat::MessageEvent& event) const;
  void write_reasoning(JsonWriter& w, const std::string& text) const;
  void write_whole_logprobs(JsonWriter& w, const ChoiceSoFar& choice) const;
  // A chunk for each part that has text; one without any when there are logprobs to send.
  std::string chunks(uint32_t choice, const Events& events, const TokenEvent* with_logprobs = nullptr) const;
  void begin(JsonWriter& w, const char* object) const;
  template <class Delta>
  std::string chunk(uint32_t choice, const Delta& delta, const TokenEvent* with_logprobs = nullptr,
                    std::string_view finish = {}) const;

  std::string id_, model_name_, fingerprint_;
  int64_t created_;
  const tokenizer::Tokenizer* tokenizer_;  // the run holds the model
  const chat::ModelFormat* format_;
  Options options_;
  std::vector<chat::MessageParser> parsers_;  // per choice
  uint64_t n_reasoning_ = 0;                  // tokens
  bool is_stream_, include_usage_, want_logprobs_;
};

}  // namespace rocmforge::server
