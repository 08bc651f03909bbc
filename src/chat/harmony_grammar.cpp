#include "chat/harmony_grammar.h"

#include <string>

namespace rocmforge::chat {
namespace {

using grammar::Grammar;
using grammar::RuleId;
using grammar::StateId;

constexpr std::string_view kMarkers[] = {"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>",
                                         "<|end|>",   "<|return|>",  "<|call|>"};

class HarmonyGrammar {
 public:
  HarmonyGrammar(Grammar& grammar, const MessageRules& rules, CallSyntax& calls, std::optional<RuleId> answer)
      : grammar_(grammar), rules_(rules), calls_(calls), answer_(answer), rule_(grammar.add_rule()) {
    grammar.set_root(rule_);
  }

  // Thoughts, then an answer or a call. The prompt ends with the role.
  void add() {
    const StateId next = grammar_.add_state(rule_);
    const StateId start = grammar_.start_of(rule_);
    if (rules_.reasoning == ReasoningStart::inside) {
      add_text(start, next);
    } else {
      grammar_.add_empty(start, next);
    }
    if (rules_.reasoning != ReasoningStart::none) add_message(next, "analysis", next);
    const StateId end = grammar_.add_state(rule_);
    grammar_.set_final(end);
    const bool calls = rules_.calls != CallChoice::none;
    if (calls) add_calls(next, end);
    if (calls && rules_.calls != CallChoice::required) add_message(next, "commentary", next);
    if (rules_.calls != CallChoice::required) add_final(next, end);
  }

 private:
  grammar::Regex text() { return calls_.text_without(kMarkers); }

  // A message's text, and the beginning of the next message.
  void add_text(StateId from, StateId to) {
    const StateId after = grammar_.add_state(rule_);
    grammar_.add_text(from, text(), after);
    grammar_.add_text(after, calls_.marker("<|end|><|start|>assistant"), to);
  }

  void add_message(StateId from, const std::string& channel, StateId to) {
    const StateId body = grammar_.add_state(rule_);
    grammar_.add_text(from, calls_.marker("<|channel|>" + channel + "<|message|>"), body);
    add_text(body, to);
  }

  void add_final(StateId from, StateId end) {
    const StateId body = grammar_.add_state(rule_);
    grammar_.add_text(from, calls_.marker("<|channel|>final<|message|>"), body);
    if (!answer_) return grammar_.add_text(body, text(), end);
    grammar_.add_text(from, calls_.marker("<|channel|>final <|constrain|>json<|message|>"), body);
    grammar_.add_call(body, *answer_, end);
  }

  // The recipient stands behind the channel, or behind the role.
  void add_calls(StateId from, StateId end) {
    for (const std::string format : {" <|constrain|>json<|message|>~", "<|message|>~"}) {
      for (const std::string channel : {"commentary", "analysis"}) {
        calls_.add_call(rule_, from, end, "<|channel|>" + channel + " to=functions.%N" + format, "");
        calls_.add_call(rule_, from, end, " to=functions.%N<|channel|>" + channel + format, "");
      }
    }
  }

  Grammar& grammar_;
  const MessageRules& rules_;
  CallSyntax& calls_;
  std::optional<RuleId> answer_;
  RuleId rule_;
};

}  // namespace

void add_harmony_message(Grammar& grammar, const MessageRules& rules, CallSyntax& calls, std::optional<RuleId> answer) {
  HarmonyGrammar(grammar, rules, calls, answer).add();
}

}  // namespace rocmforge::chat
