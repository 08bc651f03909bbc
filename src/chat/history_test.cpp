#include "chat/history.h"

#include <gtest/gtest.h>

#include "chat/message.h"
#include "support/support.h"

namespace rocmforge::chat {
namespace {

using testing::read_text;

ChatTemplate template_of(std::string text) {
  static const gguf::Metadata empty;
  ChatVocabulary vocabulary{"<s>", "</s>", [](std::string_view) { return false; }};
  auto loaded = ChatTemplate::load(empty, std::move(vocabulary), {.text = std::move(text), .name = {}});
  EXPECT_TRUE(loaded.ok());
  return std::move(*loaded);
}

ModelFormat format_of(const ChatTemplate& chat_template) {
  const FormatChoice found = *find_format(chat_template, [](std::string_view) { return false; });
  return {.format = found.format,
          .found_by = found.found_by,
          .is_told = found.found_by == FoundBy::instruction,
          .markers = {},
          .control = {}};
}

ChatRequest conversation(std::string_view messages, std::string_view tools = "[]") {
  ChatRequest request;
  request.messages = *parse_tools(messages);
  request.tools = *parse_tools(tools);
  return request;
}

constexpr std::string_view kTwoCalls =
    R"([{"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[
  {"id":"call_a","type":"function","function":{"name":"now","arguments":"{\"a\": 1}"}},
  {"id":"call_b","type":"function","function":{"name":"then","arguments":"{}"}}]},
  {"role":"tool","tool_call_id":"call_a","content":"noon"},{"role":"tool","tool_call_id":"call_b","content":"one"}])";
constexpr std::string_view kTools =
    R"([{"type":"function","function":{"name":"now","description":"d","parameters":{"type":"object","properties":
    {"a":{"type":["null","integer"],"description":"d"}}}}}])";

size_t count(const std::string& text, std::string_view what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) n++;
  return n;
}

TEST(History, IdsThatATemplateRefusesAreReplacedByTheSameOnes) {
  EXPECT_EQ(nine_letters_of("abcDEF123"), "abcDEF123");
  EXPECT_EQ(nine_letters_of("call_a").size(), 9u);
  EXPECT_EQ(nine_letters_of("call_a"), nine_letters_of("call_a"));
  EXPECT_NE(nine_letters_of("call_a"), nine_letters_of("call_b"));
  RF_NEED_SHARED(folder, "goldens/templates");
  const auto chat_template = template_of(read_text(folder + "/mistralai-Mistral-Nemo-Instruct-2407.jinja"));
  const auto text = render_chat(chat_template, format_of(chat_template), conversation(kTwoCalls));
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(count(*text, nine_letters_of("call_a")), 2u) << *text;
}

TEST(History, SeveralCallsBecomeSeveralMessagesWhereATemplateTakesOne) {
  RF_NEED_SHARED(folder, "goldens/templates");
  const auto chat_template = template_of(read_text(folder + "/meta-llama-Llama-3.1-8B-Instruct.jinja"));
  const auto text = render_chat(chat_template, format_of(chat_template), conversation(kTwoCalls));
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(count(*text, R"({"name": "now", "parameters": )"), 1u) << *text;
  EXPECT_EQ(count(*text, R"({"name": "then", "parameters": )"), 1u) << *text;
}

TEST(History, ATypeThatIsAListIsSimplifiedWhereATemplateFailsOnIt) {
  RF_NEED_SHARED(folder, "goldens/templates");
  const auto chat_template = template_of(read_text(folder + "/NousResearch-Hermes-3-Llama-3.1-8B-tool_use.jinja"));
  const auto text = render_chat(chat_template, format_of(chat_template), conversation(kTwoCalls, kTools));
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_NE(text->find("now"), std::string::npos);
}

TEST(History, ATemplateWithoutToolsGetsThemAsText) {
  const auto chat_template = template_of("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}");
  const ModelFormat format = format_of(chat_template);
  ASSERT_TRUE(format.is_told);
  const auto text = render_chat(chat_template, format, conversation(kTwoCalls, kTools));
  ASSERT_TRUE(text.ok());
  EXPECT_TRUE(text->starts_with("[system]# Tools")) << *text;
  EXPECT_NE(text->find(R"([assistant]<tool_call>
{"name": "now", "arguments": {"a": 1}}
</tool_call>
<tool_call>
{"name": "then", "arguments": {}}
</tool_call>[user]<tool_response>
noon
</tool_response>
<tool_response>
one
</tool_response>)"),
            std::string::npos)
      << *text;
}

}  // namespace
}  // namespace rocmforge::chat
