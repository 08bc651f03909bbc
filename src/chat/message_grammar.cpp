#include "chat/message_grammar.h"

#include <fmt/core.h>

#include <algorithm>

#include "chat/harmony_grammar.h"

namespace rocmforge::chat {
namespace {

using grammar::Grammar;
using grammar::kAnyBytes;
using grammar::kEmptyText;
using grammar::Regex;
using grammar::RuleId;
using grammar::StateId;

// Markers like <response> may stand around the answer.
constexpr uint32_t kMaxDropped = 2;

class MessageGrammar {
 public:
  MessageGrammar(Grammar& grammar, const MessageRules& rules, CallSyntax& calls, std::optional<RuleId> answer)
      : grammar_(grammar), rules_(rules), format_(*rules.format), calls_(calls), answer_(answer) {
    rule_ = grammar.add_rule();
    end_ = grammar.add_state(rule_);
    grammar.set_final(end_);
    grammar.set_root(rule_);
  }

  void add() {
    const StateId start = grammar_.start_of(rule_);
    if (rules_.calls != CallChoice::none) triggers_ = calls_.triggers();
    switch (rules_.reasoning) {
      case ReasoningStart::none:
        return add_answer(start, rules_.starts_in_marker);
      case ReasoningStart::may_begin: {
        const StateId thoughts = grammar_.add_state(rule_);
        for (const std::string_view open : format_.reasoning_open) {
          grammar_.add_text(start, grammar_.pool.concat(calls_.space(), calls_.marker(open)), thoughts);
        }
        add_reasoning(thoughts);
        return add_answer(start, rules_.starts_in_marker);
      }
      case ReasoningStart::inside:
        return add_reasoning(start);
    }
  }

 private:
  // Text up to a closing marker, or up to a call: some models call before they have closed their thoughts.
  void add_reasoning(StateId from) {
    std::vector<Regex> ends;
    for (const std::string_view close : format_.reasoning_close) ends.push_back(calls_.marker(close));
    const StateId after = grammar_.add_state(rule_), rest = grammar_.add_state(rule_);
    const StateId answer = grammar_.add_state(rule_);
    std::vector<Regex> excluded = ends;
    excluded.push_back(triggers_);
    grammar_.add_text(from, without(std::move(excluded)), after);
    for (const Regex end : ends) {
      if (end != kEmptyText) grammar_.add_text(after, end, rest);
    }
    if (rules_.calls != CallChoice::none) add_calls(after, false);
    // An answer that need not say anything may end here.
    if (rules_.calls != CallChoice::required && !answer_) grammar_.add_empty(after, end_);
    grammar_.add_text(rest, calls_.space(), answer);
    add_answer(answer, false);
  }

  void add_answer(StateId from, bool starts_in_marker) {
    Regex dropped = grammar_.pool.repeat(dropped_marker(true), 0, kMaxDropped);
    if (answer_) {
      const StateId begun = grammar_.add_state(rule_), written = grammar_.add_state(rule_);
      grammar_.add_text(from, dropped, begun);
      grammar_.add_call(begun, *answer_, written);
      add_end(written);
    }
    if (rules_.calls == CallChoice::required || answer_) {
      if (rules_.calls == CallChoice::none) return;
      const StateId before = grammar_.add_state(rule_);
      dropped = grammar_.pool.concat(dropped, calls_.space());
      grammar_.add_text(from, starts_in_marker ? kEmptyText : dropped, before);
      return add_calls(before, starts_in_marker);
    }
    add_free_text(from, starts_in_marker);
  }

  void add_free_text(StateId from, bool starts_in_marker) {
    const StateId text = grammar_.add_state(rule_), after = grammar_.add_state(rule_);
    if (starts_in_marker) {
      for (const std::string_view one : format_.dropped) {
        if (!one.starts_with(format_.start_prefix)) continue;
        grammar_.add_text(from, calls_.marker(one.substr(format_.start_prefix.size())), text);
      }
      if (rules_.calls != CallChoice::none) add_calls(from, true);
    } else {
      grammar_.add_empty(from, text);
    }
    grammar_.add_text(text, without({triggers_}), after);
    grammar_.add_empty(after, end_);
    if (rules_.calls != CallChoice::none) add_calls(after, false);
  }

  void add_calls(StateId from, bool starts_in_marker) {
    const StateId called = grammar_.add_state(rule_);
    calls_.add_calls(rule_, from, called, rules_.is_parallel, starts_in_marker);
    add_end(called);
  }

  void add_end(StateId from) {
    grammar_.add_text(from, grammar_.pool.repeat(dropped_marker(false), 0, kMaxDropped), end_);
  }

  // One of the markers that the parser removes from an answer, with white space on one side.
  Regex dropped_marker(bool is_before) {
    std::vector<Regex> all;
    for (const std::string_view one : format_.dropped) {
      if (!format_.start_prefix.empty() && one.starts_with(format_.start_prefix)) continue;
      if (const Regex text = calls_.marker(one); text != kEmptyText) all.push_back(text);
    }
    const Regex any = grammar_.pool.either(std::move(all)), space = calls_.space();
    return is_before ? grammar_.pool.concat(any, space) : grammar_.pool.concat(space, any);
  }

  Regex without(std::vector<Regex> excluded) {
    std::erase(excluded, kEmptyText);  // a token that ends the answer: no text has it
    return grammar::texts_without(grammar_.pool, grammar_.pool.either(std::move(excluded)));
  }

  Grammar& grammar_;
  const MessageRules& rules_;
  const ToolFormat& format_;
  CallSyntax& calls_;
  std::optional<RuleId> answer_;
  RuleId rule_ = 0;
  StateId end_ = 0;
  Regex triggers_ = grammar::kNothing;
};

}  // namespace

Result<grammar::Compiled> compile_message(const MessageRules& rules, const grammar::FindToken& find_token) {
  auto grammar = std::make_unique<Grammar>();
  std::optional<RuleId> answer;
  if (rules.answer) answer = TRY(grammar::add_source(*grammar, *rules.answer, find_token));
  CallSyntax calls(*grammar, *rules.format, rules.tokens);
  MessageRules known = rules;
  const ToolSet types(rules.tools);
  if (rules.calls != CallChoice::none) {
    for (const JsonValue& tool : rules.tools) TRY(calls.add_tool(tool, types));
    if (!calls.has_tools() && rules.calls == CallChoice::required) {
      return Error{ErrorCode::invalid_argument, "tools: no call can be written"};
    }
    if (!calls.has_tools()) known.calls = CallChoice::none;
  }
  if (rules.format->is_harmony) {
    add_harmony_message(*grammar, known, calls, answer);
  } else {
    MessageGrammar(*grammar, known, calls, answer).add();
  }
  return grammar::Compiled{TRY(grammar::Constraint::make(std::move(grammar))), calls.take_unenforced()};
}

std::string cache_key(const MessageRules& rules) {
  JsonWriter tools;
  tools.value(JsonValue(rules.tools));
  return fmt::format("message {} {} {} {} {} {} {}", rules.format->name, static_cast<int>(rules.calls),
                     rules.is_parallel, static_cast<int>(rules.reasoning), rules.starts_in_marker,
                     rules.answer ? "answer " + grammar::cache_key(*rules.answer) : "free", tools.take());
}

ReasoningStart reasoning_start(ParserOptions options, bool may_think) {
  const ToolFormat& format = options.format ? *options.format : *find_tool_format("hermes");
  options.reads_reasoning = true;
  if (MessageParser(options).is_reasoning()) return ReasoningStart::inside;
  if (format.is_harmony) return ReasoningStart::may_begin;
  std::string_view tail = options.prompt_tail;
  while (!tail.empty() && is_space(unit_of(tail.back()))) tail.remove_suffix(1);
  const auto ends_tail = [&](std::string_view marker) { return tail.ends_with(marker); };
  // Without a token of its own the marker is a text like any other: such a model does not think.
  const auto is_token = [&](std::string_view marker) {
    return std::ranges::find(options.control, marker) != options.control.end();
  };
  const bool is_over = std::ranges::any_of(format.reasoning_close, ends_tail);
  const bool can_think = std::ranges::any_of(format.reasoning_open, is_token);
  return may_think && can_think && !is_over ? ReasoningStart::may_begin : ReasoningStart::none;
}

}  // namespace rocmforge::chat
