#include "chat/spliced_prompt.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "chat/marked_text.h"

namespace rocmforge::chat {
namespace {

using tokenizer::PhraseFinder;

// How much of the text before an answer may differ: "<think>\n" where reasoning was asked for, and the like.
constexpr size_t kMaxDifference = 64;
// So many bytes have to be the same then.
constexpr size_t kMinSame = 16;
constexpr int kMaxRenderings = 3;

const std::string* text_in(const JsonValue& value, std::string_view key) {
  const JsonValue* found = value.find(key);
  return found ? found->as<std::string>() : nullptr;
}

void set_member(JsonValue& value, std::string_view key, JsonValue to) {
  auto& object = std::get<JsonObject>(value.state());
  std::erase_if(object, [&](const auto& member) { return member.first == key; });
  object.emplace_back(std::string(key), std::move(to));
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first == text.npos ? std::string_view() : text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first);
}

std::vector<std::string> names_of_calls(const JsonValue& message) {
  std::vector<std::string> out;
  const JsonValue* calls = message.find("tool_calls");
  const auto* list = calls ? calls->as<JsonArray>() : nullptr;
  for (const JsonValue& call : list ? *list : JsonArray{}) {
    const JsonValue* function = call.find("function");
    const std::string* name = text_in(function ? *function : call, "name");
    out.push_back(name ? *name : "");
  }
  return out;
}

struct EndToken {
  size_t at = 0;
  TokenId token;
};

class Splicer {
 public:
  Splicer(const ChatTemplate& chat_template, const ModelFormat& format, const tokenizer::Tokenizer& tokenizer,
          const ChatRequest& conversation)
      : template_(chat_template), format_(format), tokenizer_(tokenizer), conversation_(conversation) {}

  // The tokens with those answers that can be put in, which are left in `answers`; nothing: with none.
  std::optional<std::vector<TokenId>> splice(std::vector<const WrittenAnswer*>& answers, const std::string& whole) {
    std::erase_if(answers, [&](const WrittenAnswer* one) { return !may_be_spliced(*one, whole); });
    for (int i = 0; i < kMaxRenderings && !answers.empty(); i++) {
      text_.clear();
      places_.clear();
      std::vector<const WrittenAnswer*> doubtful;
      if (!build(answers, doubtful)) return {};
      if (doubtful.empty()) return encode(answers);
      std::erase_if(answers, [&](const WrittenAnswer* one) { return std::ranges::count(doubtful, one) > 0; });
    }
    return {};
  }

 private:
  static std::string marker(size_t message) { return fmt::format("@@answer-{}-stood-here@@", message); }

  // Reasoning that the template leaves out stays out.
  bool may_be_spliced(const WrittenAnswer& answer, const std::string& whole) const {
    if (answer.message >= conversation_.messages.size() || answer.tokens.empty()) return false;
    const JsonValue& message = conversation_.messages[answer.message];
    if (!message.as<JsonObject>()) return false;
    const std::string* reasoning = text_in(message, "reasoning_content");
    if (reasoning && whole.find(trimmed(*reasoning)) == whole.npos) return false;
    if (whole.find(marker(answer.message)) != whole.npos) return false;
    // Names of control tokens in calls would end the answer too early below.
    JsonWriter w;
    if (const JsonValue* calls = message.find("tool_calls")) w.value(*calls);
    const std::string calls = w.take();
    return !find_control(calls, [](int32_t) { return true; });
  }

  template <class Wanted>
  std::optional<EndToken> find_control(std::string_view text, const Wanted& wanted) const {
    PhraseFinder::Scan scan(tokenizer_.control_names(), text);
    for (size_t at = 0; at < text.size(); at++) {
      const auto found = scan.longest_at(at);
      if (found && wanted(found->value)) return EndToken{at, TokenId(found->value)};
    }
    return {};
  }

  // False: the template cannot render the markers.
  bool build(const std::vector<const WrittenAnswer*>& answers, std::vector<const WrittenAnswer*>& doubtful) {
    ChatRequest request = conversation_;
    for (const WrittenAnswer* answer : answers) {
      JsonValue& message = request.messages[answer->message];
      set_member(message, "content", JsonValue(marker(answer->message)));
      for (const char* name : {"reasoning_content", "reasoning", "thinking"}) {
        std::erase_if(std::get<JsonObject>(message.state()), [&](const auto& member) { return member.first == name; });
      }
    }
    const auto rendered = render_marked(template_, format_, tokenizer_, std::move(request));
    if (!rendered.ok()) return false;
    std::string_view rest = *rendered;
    for (size_t i = 0; i < answers.size(); i++) {
      const std::string here = marker(answers[i]->message);
      const size_t at = rest.find(here);
      if (at == rest.npos) return false;
      const std::string_view behind = rest.substr(at + here.size());
      const auto next = i + 1 < answers.size() ? behind.find(marker(answers[i + 1]->message)) : behind.npos;
      const auto end = find_control(behind.substr(0, next),
                                    [&](int32_t token) { return tokenizer_.is_end_of_text(TokenId(token)); });
      const auto before = text_before(rest.substr(0, at), *answers[i]);
      if (!end || !before || !is_the_answer(behind.substr(0, end->at), rest.substr(0, at), *answers[i])) {
        doubtful.push_back(answers[i]);
        rest = behind;
        continue;
      }
      text_ += *before;
      places_.push_back({text_.size(), end->token});
      rest = behind.substr(end->at);
    }
    text_ += rest;
    return true;
  }

  // What stands before the answer: as it is rendered now, but for an end that was another when it was answered.
  std::optional<std::string> text_before(std::string_view now, const WrittenAnswer& answer) const {
    const std::string_view then = answer.prompt_tail;
    for (size_t differ = 0; differ <= 2 * kMaxDifference; differ++) {
      for (size_t cut = differ - std::min(differ, kMaxDifference); cut <= std::min(differ, kMaxDifference); cut++) {
        const size_t added = differ - cut;  // bytes of `then` that are not in `now`
        if (cut > now.size() || added > then.size()) continue;
        const std::string_view a = now.substr(0, now.size() - cut), b = then.substr(0, then.size() - added);
        const size_t n = std::min(a.size(), b.size());
        if (n < std::min(kMinSame, now.size()) || !a.ends_with(b.substr(b.size() - n))) continue;
        return std::string(a).append(then.substr(then.size() - added));
      }
    }
    return {};
  }

  // Whether what a marker's text ends with is the rest of its message: nothing but white space, or its calls.
  bool is_the_answer(std::string_view text, std::string_view before, const WrittenAnswer& answer) const {
    if (trimmed(text).empty()) return true;
    const auto names = names_of_calls(conversation_.messages[answer.message]);
    if (names.empty()) return false;
    std::string_view rest = text;
    for (const std::string& name : names) {
      const size_t at = rest.find(name);
      if (name.empty() || at == rest.npos) return false;
      rest.remove_prefix(at + name.size());
    }
    // The token that begins messages stands before the marker: behind it another message would have begun.
    std::string_view tail = before.substr(before.size() - std::min(before.size(), kMaxDifference));
    std::optional<TokenId> begins;
    while (const auto found = find_control(tail, [](int32_t) { return true; })) {
      begins = found->token;
      tail.remove_prefix(found->at + 1);
    }
    return begins && !find_control(text, [&](int32_t token) { return token == begins->value; });
  }

  // The answers go before the tokens that end them, which are counted in the text and in the tokens.
  std::optional<std::vector<TokenId>> encode(const std::vector<const WrittenAnswer*>& answers) const {
    auto tokens = encode_marked(tokenizer_, text_);
    if (!tokens.ok()) return {};
    std::vector<size_t> where;  // of each token that ends a text, its place in the text
    PhraseFinder::Scan scan(tokenizer_.control_names(), text_);
    for (size_t at = 0; at < text_.size();) {
      const auto found = scan.longest_at(at);
      if (found && tokenizer_.is_end_of_text(TokenId(found->value))) where.push_back(at);
      at += found ? found->n_bytes : 1;
    }
    std::vector<TokenId> out;
    size_t n_ends = 0, n_put = 0;
    for (const TokenId token : *tokens) {
      if (tokenizer_.is_end_of_text(token)) {
        if (n_ends == where.size()) return {};
        if (n_put < places_.size() && where[n_ends] == places_[n_put].at) {
          if (token != places_[n_put].token) return {};
          out.insert(out.end(), answers[n_put]->tokens.begin(), answers[n_put]->tokens.end());
          n_put++;
        }
        n_ends++;
      }
      out.push_back(token);
    }
    if (n_put != places_.size() || n_ends != where.size()) return {};
    return out;
  }

  const ChatTemplate& template_;
  const ModelFormat& format_;
  const tokenizer::Tokenizer& tokenizer_;
  const ChatRequest& conversation_;
  std::string text_;              // the prompt without the answers
  std::vector<EndToken> places_;  // of the answers in it
};

}  // namespace

Result<std::vector<TokenId>> encode_spliced(const ChatTemplate& chat_template, const ModelFormat& format,
                                            const tokenizer::Tokenizer& tokenizer, ChatRequest conversation,
                                            std::span<const WrittenAnswer> answers, std::string* tail,
                                            size_t* n_spliced) {
  if (n_spliced) *n_spliced = 0;
  if (answers.empty()) return encode_chat(chat_template, format, tokenizer, std::move(conversation), tail);
  const std::string whole = TRY(render_marked(chat_template, format, tokenizer, conversation));
  if (tail) *tail = tail_of(whole);
  std::vector<const WrittenAnswer*> known;
  for (const WrittenAnswer& one : answers) known.push_back(&one);
  auto tokens = Splicer(chat_template, format, tokenizer, conversation).splice(known, whole);
  if (!tokens) return encode_marked(tokenizer, whole);
  if (n_spliced) *n_spliced = known.size();
  return std::move(*tokens);
}

}  // namespace rocmforge::chat
