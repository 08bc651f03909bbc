#pragma once
// How a format writes calls, as rules of a grammar: what a model may write so that the parser of the same format reads
// a call of a known tool with arguments of its schema.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "chat/tool_format.h"
#include "chat/tool_set.h"
#include "grammar/compile.h"
#include "grammar/rules.h"
#include "grammar/value_syntax.h"

namespace rocmforge::chat {

// Markers as the vocabulary writes them.
struct MarkerTokens {
  std::vector<std::string> control = {};      // markers that are tokens of their own
  std::vector<std::string> end_of_text = {};  // tokens that end an answer: a grammar does without them
};

// Adds rules to a grammar that is not finished.
class CallSyntax {
 public:
  // All must outlive this.
  CallSyntax(grammar::Grammar& grammar, const ToolFormat& format, const MarkerTokens& tokens);

  // Adds a tool in OpenAI's form, with a rule for its arguments. A tool that cannot be called in this format is left
  // out; arguments of which the schema cannot be enforced are any object. Both are named in unenforced().
  // Errors: limit_exceeded
  Result<void> add_tool(const JsonValue& tool, const ToolSet& types);
  std::vector<grammar::Unenforced> take_unenforced() { return std::move(unenforced_); }
  bool has_tools() const { return !tools_.empty(); }

  // Where calls begin in a text that is otherwise free.
  grammar::Regex triggers();
  // Adds edges for calls between two states of a rule. `is_first`: the prompt ends with the start of the first marker.
  void add_calls(grammar::RuleId rule, grammar::StateId from, grammar::StateId to, bool is_parallel, bool is_first);
  // A call's arguments, after `opening` with the tool's name.
  void add_call(grammar::RuleId rule, grammar::StateId from, grammar::StateId to, const std::string& opening,
                std::string_view closing);

  // A marker in the language of tool_format.h; its name is that of `tool`.
  grammar::Regex marker(std::string_view marker, std::string_view tool = {});
  // White space that may stand between parts.
  grammar::Regex space();
  // Texts in which no control token that is a marker stands, and no marker that is text.
  grammar::Regex text_without(std::span<const std::string_view> markers);

 private:
  struct Tool {
    std::string name;
    grammar::RuleId arguments = 0;
  };
  // The markers around the arguments of a call.
  struct Frame {
    std::string opening, closing;
  };

  std::vector<Frame> frames() const;
  std::string trigger_of(const std::string& opening) const;
  grammar::ValueSyntax value_syntax() const;
  grammar::MemberSyntax member_syntax(std::string_view tool, const ToolSet& types);
  Result<grammar::RuleId> add_arguments(const JsonValue& schema, std::string_view tool, const ToolSet& types);
  grammar::RuleId add_call_rule(bool is_first);
  bool can_write(std::string_view name) const;
  grammar::Regex literal(std::string_view text);
  std::string marked(std::string_view text) const;

  grammar::Grammar& grammar_;
  const ToolFormat& format_;
  const MarkerTokens& tokens_;
  std::vector<Tool> tools_;
  std::vector<grammar::Unenforced> unenforced_;
};

}  // namespace rocmforge::chat
