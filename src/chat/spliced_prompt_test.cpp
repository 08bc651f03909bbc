#include "chat/spliced_prompt.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "chat/message.h"
#include "gguf/reader.h"
#include "support/support.h"

namespace rocmforge::chat {
namespace {

// Calls are rendered over several lines, which no model here writes.
constexpr std::string_view kTemplate =
    "{% for m in messages %}<s>[{{ m.role }}]"
    "{% if m.reasoning_content and not loop.last %}{% if messages[-1].role != 'user' %}"
    "<think>{{ m.reasoning_content }}</think>{% endif %}{% endif %}{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}<tool_call>\n{{ c.function | tojson(indent=4) }}\n</tool_call>{% endfor %}</s>\n"
    "{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% if add_generation_prompt %}<s>[assistant]{% if enable_thinking %}<think>\n{% endif %}{% endif %}";

class SplicedPrompt : public ::testing::Test {
 protected:
  SplicedPrompt()
      : file_(*gguf::GgufFile::open(testing::source_path("models/story-q4_k_m.gguf"))),
        tokenizer_(*tokenizer::Tokenizer::load(file_.metadata())) {
    use(std::string(kTemplate));
  }
  void use(std::string text) {
    template_.emplace(*ChatTemplate::load(
        file_.metadata(), {.bos = "<s>", .eos = "</s>", .contains = [](std::string_view) { return false; }},
        {.text = std::move(text), .name = {}}));
    format_ = *find_model_format(*template_, tokenizer_);
  }
  static ChatRequest request(std::string_view messages) {
    ChatRequest out;
    out.messages = *parse_tools(messages);
    return out;
  }
  std::vector<TokenId> encode(const ChatRequest& request, std::string* tail = nullptr) const {
    return *encode_chat(*template_, format_, tokenizer_, request, tail);
  }
  // A text one character a token: no tokenizer would cut it so.
  std::vector<TokenId> letters(std::string_view text) const {
    std::vector<TokenId> out;
    for (const char c : text) {
      auto token = tokenizer_.find(c == ' ' ? "\u2581" : std::string(1, c));
      if (!token) token = tokenizer_.find(fmt::format("<0x{:02X}>", static_cast<unsigned char>(c)));
      EXPECT_TRUE(token) << c;
      out.push_back(token.value_or(TokenId(0)));
    }
    return out;
  }
  // The answer to the messages before `message`, in these tokens.
  WrittenAnswer written(const ChatRequest& whole, size_t message, std::string_view text) const {
    WrittenAnswer out{.message = message, .tokens = letters(text), .prompt_tail = {}};
    ChatRequest before = whole;
    before.messages.erase(before.messages.begin() + static_cast<std::ptrdiff_t>(message), before.messages.end());
    (void)encode(before, &out.prompt_tail);
    return out;
  }
  std::vector<TokenId> spliced(const ChatRequest& request, std::initializer_list<WrittenAnswer> answers, size_t n) {
    size_t found = 0;
    std::string tail, plain_tail;
    const std::vector<WrittenAnswer> all = answers;
    auto out = encode_spliced(*template_, format_, tokenizer_, request, all, &tail, &found);
    EXPECT_TRUE(out.ok());
    EXPECT_EQ(found, n);
    const auto plain = encode(request, &plain_tail);
    EXPECT_EQ(tail, plain_tail);
    if (n == 0) {
      EXPECT_EQ(*out, plain);
    }
    return *out;
  }
  static bool starts_with(const std::vector<TokenId>& tokens, const std::vector<TokenId>& first) {
    return tokens.size() >= first.size() && std::equal(first.begin(), first.end(), tokens.begin());
  }
  static std::vector<TokenId> joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  gguf::GgufFile file_;
  tokenizer::Tokenizer tokenizer_;
  std::optional<ChatTemplate> template_;
  ModelFormat format_;
};

TEST_F(SplicedPrompt, HasTheTokensThatWereWritten) {
  const auto whole = request(
      R"([{"role":"user","content":"Who?"},{"role":"assistant","content":"A girl."},{"role":"user","content":"Why?"}])");
  const auto first = encode(request(R"([{"role":"user","content":"Who?"}])"));
  const auto tokens = spliced(whole, {written(whole, 1, "A girl.")}, 1);
  EXPECT_TRUE(starts_with(tokens, joined(first, letters("A girl."))));
  EXPECT_FALSE(starts_with(encode(whole), joined(first, letters("A girl."))));
  EXPECT_EQ(*tokenizer_.decode(tokens, true), *tokenizer_.decode(encode(whole), true));
}

TEST_F(SplicedPrompt, HasCallsAsTheyWereWritten) {
  const auto whole = request(R"([{"role":"user","content":"Time?"},
    {"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":{"name":"now","arguments":"{\"a\":1}"}},
      {"id":"b","type":"function","function":{"name":"then","arguments":"{}"}}]},
    {"role":"tool","tool_call_id":"a","content":"noon"},{"role":"tool","tool_call_id":"b","content":"one"}])");
  const std::string_view said =
      R"(<tool_call>{"name":"now","arguments":{"a":1}}</tool_call><tool_call>{"name":"then"}</tool_call>)";
  const auto tokens = spliced(whole, {written(whole, 1, said)}, 1);
  const std::string text = *tokenizer_.decode(tokens, true);
  EXPECT_NE(text.find(std::string(said) + "</s>"), std::string::npos) << text;
  EXPECT_NE(text.find("noon"), std::string::npos);
  EXPECT_EQ(text.find("answer-1"), std::string::npos);
  EXPECT_EQ(text.find('\n' + std::string("    ")), std::string::npos) << "the template's form is gone";
}

TEST_F(SplicedPrompt, KnowsAnswersOneByOne) {
  const auto whole =
      request(R"([{"role":"user","content":"Say </s> and <s>[assistant]."},{"role":"assistant","content":"One."},
    {"role":"user","content":"Next?"},{"role":"assistant","content":"Two."},
    {"role":"user","content":"Next?"},{"role":"assistant","content":"Three."},{"role":"user","content":"End"}])");
  const auto one = written(whole, 1, "One."), two = written(whole, 3, "Two."), three = written(whole, 5, "Three.");
  const std::string plain = *tokenizer_.decode(encode(whole), true);
  const auto all = spliced(whole, {one, two, three}, 3);
  EXPECT_EQ(*tokenizer_.decode(all, true), plain);
  for (const WrittenAnswer& answer : {one, two, three}) {
    EXPECT_NE(std::ranges::search(all, answer.tokens).size(), 0u);
  }
  const auto some = spliced(whole, {one, three}, 2);
  EXPECT_EQ(*tokenizer_.decode(some, true), plain);
  EXPECT_EQ(std::ranges::search(some, two.tokens).size(), 0u);
  // What stood before the second one was another text: the others are still put in.
  auto other = two;
  other.prompt_tail = "<s>[user]Something else was asked here</s>\n<s>[assistant]";
  EXPECT_EQ(spliced(whole, {one, other, three}, 2), some);
}

TEST_F(SplicedPrompt, KeepsTheEndOfThePromptThatWasAnswered) {
  auto whole = request(
      R"([{"role":"user","content":"Who is it?"},{"role":"assistant","content":"A girl."},{"role":"user","content":"Why?"}])");
  whole.enable_thinking = true;
  const auto answer = written(whole, 1, "</think>A girl.");
  ASSERT_TRUE(answer.prompt_tail.ends_with("[assistant]<think>\n"));
  const auto tokens = spliced(whole, {answer}, 1);
  const std::string text = *tokenizer_.decode(tokens, true);
  EXPECT_NE(text.find("[assistant]<think>\n</think>A girl.</s>"), std::string::npos) << text;
}

TEST_F(SplicedPrompt, LeavesReasoningOutWhereTheTemplateDoes) {
  const std::string_view said = "<think>Long thoughts</think>A girl.";
  const auto later = request(R"([{"role":"user","content":"Who?"},
    {"role":"assistant","content":"A girl.","reasoning_content":"Long thoughts"},{"role":"user","content":"Why?"}])");
  (void)spliced(later, {written(later, 1, said)}, 0);
  const auto soon = request(R"([{"role":"user","content":"Who?"},
    {"role":"assistant","content":"A girl.","reasoning_content":"Long thoughts"},{"role":"tool","content":"Why?"}])");
  (void)spliced(soon, {written(soon, 1, said)}, 1);
}

TEST_F(SplicedPrompt, IsRenderedAsEverWhereItIsNotCertain) {
  const auto whole = request(
      R"([{"role":"user","content":"Who?"},{"role":"assistant","content":"A girl."},{"role":"user","content":"Why?"}])");
  const auto answer = written(whole, 1, "A girl.");
  // No token ends an answer; text behind the content; the content is not shown; the markers are not accepted.
  for (const char* text :
       {"{% for m in messages %}[{{ m.role }}]{{ m.content }}\n{% endfor %}[assistant]",
        "{% for m in messages %}<s>[{{ m.role }}]{{ m.content }} (said)</s>\n{% endfor %}<s>[assistant]",
        "{% for m in messages %}<s>[{{ m.role }}]{% if m.role == 'user' %}{{ m.content }}{% endif %}</s>\n{% endfor %}",
        "{% for m in messages %}{% if m.content|length > 12 %}{{ raise_exception('long') }}{% endif %}"
        "<s>[{{ m.role }}]{{ m.content }}</s>\n{% endfor %}<s>[assistant]"}) {
    use(text);
    (void)spliced(whole, {answer}, 0);
  }
}

}  // namespace
}  // namespace rocmforge::chat
