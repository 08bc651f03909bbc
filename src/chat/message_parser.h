#pragma once
// Splits a model's output, as it arrives, into reasoning, content and tool calls.
//
// The parser never fails and never takes an event back: text that is no call is content, byte for byte. The events do
// not depend on where the input is cut, because it is read byte by byte.
//
// Memory: text that may still become a marker, white space that may precede one, and a call until it is certain.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/call_reader.h"
#include "chat/tool_format.h"
#include "chat/tool_set.h"

namespace rocmforge::chat {

struct MessageEvent {
  enum class Kind : uint8_t { reasoning, content, call, arguments, call_end };
  Kind kind;
  std::string text;     // a piece of reasoning, content or arguments; or the name of a call
  std::string id = {};  // the call's id, if the model wrote one
  uint32_t index = 0;   // the call's index in the message
};

struct ParserOptions {
  const ToolFormat* format = nullptr;  // null: hermes, for its reasoning markers
  std::shared_ptr<const ToolSet> tools = {};
  std::vector<std::string> control = {};  // markers that are control tokens of the vocabulary
  std::string prompt_tail = {};           // the end of the prompt: the model may be in its reasoning already
  bool reads_calls = true;                // false: markers of calls are text
  bool reads_reasoning = true;            // false: markers of reasoning are text
  // True: a call is reported as soon as its name is known, and the text that follows is its arguments. False: a call is
  // reported when it is complete, and an incomplete call is content.
  bool tells_early = true;
  uint32_t max_calls = UINT32_MAX;  // the message ends after this many calls
};

class MessageParser {
 public:
  // Limits on held white space, and on a call that is not reported yet.
  static constexpr size_t kMaxSpace = 4096, kMaxCall = 16u << 20;

  explicit MessageParser(const ParserOptions& options);

  // Control tokens stand between kControlBegin and kControlEnd.
  std::vector<MessageEvent> push(std::string_view text);
  std::vector<MessageEvent> finish();

  bool is_reasoning() const { return state_ == State::reasoning; }
  uint32_t n_calls() const { return n_calls_; }
  // The number of opening markers that did not begin a call.
  uint32_t n_failed() const { return n_failed_; }

 private:
  enum class State : uint8_t { text, reasoning, call, broken, over };
  using Kind = MessageEvent::Kind;

  void feed(Unit unit);
  void run(bool is_end);
  bool advance(bool is_end);
  bool advance_text(bool is_end);
  bool advance_reasoning(bool is_end);
  bool advance_call(bool is_end);
  bool advance_broken(bool is_end);
  Match match_after_call(bool is_end);
  Match match_markers(bool is_end);
  Match match_openings(const std::vector<FormatPatterns::Opening>& openings, bool is_end);
  Match match_harmony(bool is_end);
  Match drop(const FormatPatterns::Patterns& patterns, bool is_end);
  void begin_call(size_t length, Captures captures, const FormatPatterns::Opening& opening);
  void tell_call();
  void end_call();
  void undo_call();
  void take_text(Kind kind);
  void emit(Kind kind, std::string_view text);

  const ToolFormat* format_;
  std::shared_ptr<const ToolSet> tools_;
  std::unique_ptr<const FormatPatterns> patterns_;
  bool reads_calls_, reads_reasoning_, tells_early_;
  uint32_t max_calls_;
  std::vector<bool> may_begin_;  // per unit: whether a marker may begin with it

  State state_ = State::text;
  bool in_control_ = false;   // the input is inside a control token
  Units input_;               // not parsed yet
  std::string space_;         // white space before input_
  bool drops_space_ = false;  // white space here belongs to a marker
  bool is_start_ = true, is_start_of_prompt_ = false;
  bool after_call_ = false, in_array_ = false, in_section_ = false;
  bool has_content_ = false, has_reasoning_ = false;
  Unit last_ = ' ';  // the last unit of the text

  std::optional<CallReader> reader_;
  State before_call_ = State::text;
  Units call_;  // the source of a call that is not reported yet
  bool is_told_ = false;
  uint64_t rescans_ = 0;  // the number of units that may still be read again
  uint32_t n_calls_ = 0, n_failed_ = 0;
  std::vector<MessageEvent> out_;
};

}  // namespace rocmforge::chat
