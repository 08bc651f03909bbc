#pragma once
// What a model writes, told apart as it comes: reasoning, content and tool calls.
//
// It never fails and takes nothing back: what is no call is content, byte for byte. What comes out does not depend on
// where the text is cut, since it is read byte by byte.
//
// Memory: what may still become a marker, white space that may end at one, and a call until it is known to be one.

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
  std::string text;     // of reasoning, content or arguments; the name of a call
  std::string id = {};  // of a call, where the model wrote one
  uint32_t index = 0;   // of the call
};

struct ParserOptions {
  const ToolFormat* format = nullptr;  // null: hermes, for its reasoning
  std::shared_ptr<const ToolSet> tools = {};
  std::vector<std::string> control = {};  // markers that the vocabulary has as tokens of their own
  std::string prompt_tail = {};           // how the prompt ends: the model may be in its reasoning already
  bool reads_calls = true;                // else their markers are text
  bool reads_reasoning = true;            // the same
  // A call is told as soon as its name is known, and what becomes of it is its arguments. Else when it is complete, and
  // what is not complete is content.
  bool tells_early = true;
  uint32_t max_calls = UINT32_MAX;  // the message ends behind so many
};

class MessageParser {
 public:
  // White space, and calls of which nothing was told yet, are held up to this size.
  static constexpr size_t kMaxSpace = 4096, kMaxCall = 16u << 20;

  explicit MessageParser(const ParserOptions& options);

  // Control tokens stand between kControlBegin and kControlEnd.
  std::vector<MessageEvent> push(std::string_view text);
  std::vector<MessageEvent> finish();

  bool is_reasoning() const { return state_ == State::reasoning; }
  uint32_t n_calls() const { return n_calls_; }
  // Beginnings of calls that turned out to be none.
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
  std::vector<bool> may_begin_;  // per unit: a marker may

  State state_ = State::text;
  bool in_control_ = false;   // of the input
  Units input_;               // not yet understood
  std::string space_;         // white space before it
  bool drops_space_ = false;  // it ends a marker
  bool is_start_ = true, is_start_of_prompt_ = false;
  bool after_call_ = false, in_array_ = false, in_section_ = false;
  bool has_content_ = false, has_reasoning_ = false;
  Unit last_ = ' ';  // of the text

  std::optional<CallReader> reader_;
  State before_call_ = State::text;
  Units call_;  // what the call was read from, until it was told
  bool is_told_ = false;
  uint64_t rescans_ = 0;  // units that may still be read twice
  uint32_t n_calls_ = 0, n_failed_ = 0;
  std::vector<MessageEvent> out_;
};

}  // namespace rocmforge::chat
