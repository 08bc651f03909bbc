#pragma once
// The answer to a conversation as a stream of events, and the interface to the APIs' output formats.
//
// GenerationRun gives tokens. For each choice a MessageShape converts them to chat::MessageEvents (reasoning, content,
// a call's name, its arguments, its end) and one MessageEnd; the usage of all choices comes last. A Writer formats
// these for one API, as a stream or as a whole:
//
//   ResponseHead stream_head() const;
//   std::string open(uint32_t choice);
//   std::string write(uint32_t choice, std::span<const chat::MessageEvent>, const TokenEvent* with_logprobs);
//   std::string close(uint32_t choice, const MessageEnd&);
//   std::string end(const MessageUsage&);                             // of a stream, behind every choice
//   std::string whole(std::span<WholeMessage>, const MessageUsage&);  // instead of all the above
//   std::string failure(const ApiError&);                             // the last events of a stream that fails
//   bool keeps_stream() const;                                        // whether it holds what it has streamed

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "chat/message_parser.h"
#include "engine/request.h"
#include "server/api/answer_memory.h"
#include "server/api/generation_run.h"
#include "server/api/served_model.h"
#include "tokenizer/stream_decoder.h"

namespace rocmforge::server {

// Reasoning, content or a call, in the order in which they were written.
struct MessageItem {
  enum class Kind : uint8_t { reasoning, content, call };
  Kind kind = Kind::content;
  std::string text = {};     // the arguments of a call
  std::string name = {};     // of a call
  std::string id = {};       // of a call, where the model wrote one
  bool is_complete = false;  // of a call: its end was written
};

// Adds events to items: pieces of one kind in a row are one item.
void add_events(std::vector<MessageItem>& items, std::span<const chat::MessageEvent> events);

// How one choice ended.
struct MessageEnd {
  FinishReason reason = FinishReason::stop;
  uint32_t n_calls = 0;
  std::optional<uint32_t> stopped_by = {};  // which of GenerationRequest::stop
};

struct MessageUsage {
  RequestUsage tokens;
  uint64_t n_reasoning = 0;
  uint32_t n_choices = 1;
};

// Takes the tokens of an answer that is complete, by its digest (answer_memory.h).
using Remember = std::function<void(const std::string& digest, const std::vector<TokenId>& tokens)>;

// One choice of an answer in one piece.
struct WholeMessage {
  const ChoiceSoFar* choice = nullptr;
  std::vector<MessageItem> items;
  MessageEnd end;
};

template <class Writer>
class MessageShape {
 public:
  MessageShape(Writer writer, chat::ParserOptions parser, uint32_t n_choices, bool is_stream, const ServedModel& model,
               Remember remember)
      : writer_(std::move(writer)),
        options_(std::move(parser)),
        remember_(std::move(remember)),
        digests_(n_choices),
        tokenizer_(model.tokenizer),
        format_(model.tool_format),
        is_stream_(is_stream) {
    for (uint32_t i = 0; i < n_choices; i++) parsers_.emplace_back(options_);
  }

  bool is_stream() const { return is_stream_; }
  bool keeps_stream() const { return writer_.keeps_stream(); }
  ResponseHead stream_head() const { return writer_.stream_head(); }

  std::string first(uint32_t choice) { return writer_.open(choice); }

  std::string token(uint32_t choice, const TokenEvent& event) {
    const auto events = digested(choice, parsers_[choice].push(event.text));
    if (parsers_[choice].is_reasoning()) n_reasoning_++;
    return writer_.write(choice, events, event.logprobs ? &event : nullptr);
  }

  std::string last(uint32_t choice, const ChoiceSoFar& so_far, const FinishEvent& event) {
    chat::MessageParser& parser = parsers_[choice];
    std::string out = writer_.write(choice, digested(choice, parser.push(event.text)), nullptr);
    out += writer_.write(choice, digested(choice, parser.finish()), nullptr);
    remember(choice, so_far);
    return out + writer_.close(choice, end_of(choice, event.reason, event.stopped_by));
  }

  std::string end(const RequestUsage& total) { return writer_.end(usage(total)); }

  std::string whole(std::span<const ChoiceSoFar> choices, const RequestUsage& total) {
    std::vector<WholeMessage> messages;
    for (uint32_t i = 0; i < choices.size(); i++) {
      WholeMessage one{.choice = &choices[i], .items = {}, .end = {}};
      add_events(one.items, digested(i, parsers_[i].push(choices[i].text)));
      add_events(one.items, digested(i, parsers_[i].finish()));
      remember(i, choices[i]);
      one.end = end_of(i, choices[i].reason, choices[i].stopped_by);
      if (has_reasoning(one.items)) n_reasoning_ += count_reasoning(choices[i]);
      messages.push_back(std::move(one));
    }
    return writer_.whole(messages, usage(total));
  }

  std::string failure(const ApiError& error) { return writer_.failure(error); }

 private:
  std::vector<chat::MessageEvent> digested(uint32_t choice, std::vector<chat::MessageEvent> events) {
    for (const chat::MessageEvent& event : events) digests_[choice].add(event);
    return events;
  }
  // An answer that a stop string ended has tokens that are not shown.
  void remember(uint32_t choice, const ChoiceSoFar& so_far) const {
    const bool is_whole = so_far.reason == FinishReason::stop || so_far.reason == FinishReason::length;
    if (!remember_ || !is_whole || so_far.stopped_by) return;
    if (const auto digest = digests_[choice].finish()) remember_(*digest, so_far.tokens);
  }
  MessageEnd end_of(uint32_t choice, FinishReason reason, std::optional<uint32_t> stopped_by) const {
    return {.reason = reason, .n_calls = parsers_[choice].n_calls(), .stopped_by = stopped_by};
  }
  MessageUsage usage(const RequestUsage& total) const {
    return {.tokens = total, .n_reasoning = n_reasoning_, .n_choices = static_cast<uint32_t>(parsers_.size())};
  }
  static bool has_reasoning(std::span<const MessageItem> items) {
    for (const MessageItem& item : items) {
      if (item.kind == MessageItem::Kind::reasoning) return true;
    }
    return false;
  }
  // The number of tokens after which the parser was still inside the reasoning, as in a stream.
  uint64_t count_reasoning(const ChoiceSoFar& choice) const {
    chat::MessageParser parser(options_);
    tokenizer::StreamDecoder decoder(*tokenizer_, {.marked = format_->markers});
    uint64_t n = 0;
    for (const TokenId token : choice.tokens) {
      if (tokenizer_->contains(token)) parser.push(decoder.push(token).text);
      n += parser.is_reasoning() ? 1 : 0;
    }
    return n;
  }

  Writer writer_;
  chat::ParserOptions options_;
  Remember remember_;
  std::vector<AnswerDigest> digests_;      // per choice
  const tokenizer::Tokenizer* tokenizer_;  // the run holds the model
  const chat::ModelFormat* format_;
  std::vector<chat::MessageParser> parsers_;  // per choice
  uint64_t n_reasoning_ = 0;                  // tokens
  bool is_stream_;
};

}  // namespace rocmforge::server
