#include "chat/chat_template.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "gguf/writer.h"
#include "support/support.h"

namespace rocmforge::chat {
namespace {

using ::rocmforge::testing::data_path;
using ::rocmforge::testing::read_text;

gguf::Metadata metadata_with(const std::vector<std::pair<std::string, std::string>>& texts) {
  gguf::HeaderBuilder header;
  for (const auto& [key, text] : texts) header.set_string(key, text);
  return header.encode()->header.metadata;
}

ChatVocabulary vocabulary(std::vector<std::string> tokens = {}) {
  return {"<s>", "</s>", [tokens = std::move(tokens)](std::string_view token) {
            return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
          }};
}

ChatTemplate given(std::string text) {
  ChatTemplateChoice choice;
  choice.text = std::move(text);
  auto loaded = ChatTemplate::load({}, vocabulary(), choice);
  EXPECT_TRUE(loaded.ok()) << loaded.error().message;
  return std::move(*loaded);
}

JsonValue message(const char* role, JsonValue content) {
  return JsonObject{{"role", JsonValue(role)}, {"content", std::move(content)}};
}

JsonValue with_call(JsonValue arguments) {
  const JsonObject function = {{"name", JsonValue("f")}, {"arguments", std::move(arguments)}};
  return JsonObject{{"role", JsonValue("assistant")},
                    {"content", JsonValue()},
                    {"tool_calls", JsonValue(JsonArray{JsonObject{{"function", JsonValue(function)}}})}};
}

ChatRequest request(JsonArray messages) {
  ChatRequest r;
  r.messages = std::move(messages);
  return r;
}

std::string rendered(const ChatTemplate& chat, const ChatRequest& r) {
  const auto result = chat.render(r);
  return result.ok() ? *result : std::string(error_name(result.error().code)) + ": " + result.error().message;
}

TEST(ChatTemplate, ComesFromTheModel) {
  const auto metadata = metadata_with({{"tokenizer.chat_template", "{{ bos_token }}{{ messages[0].content }}"},
                                       {"tokenizer.chat_template.rag", "rag {{ messages[0].content }}"},
                                       {"tokenizer.chat_template.broken", "{% if %}"},
                                       {"tokenizer.chat_template.tool_use", "tools {{ tools[0].function.name }}"}});
  std::string warning;
  const LogCapture capture([&](LogLevel, std::string_view text) { warning += text; });
  const auto chat = ChatTemplate::load(metadata, vocabulary());
  ASSERT_TRUE(chat.ok()) << chat.error().message;
  EXPECT_EQ(chat->source(), ChatTemplate::Source::model);
  EXPECT_EQ(warning, "");
  ChatRequest r = request({message("user", "hi")});
  EXPECT_EQ(rendered(*chat, r), "<s>hi");
  r.tools = {JsonObject{{"function", JsonValue(JsonObject{{"name", JsonValue("lookup")}})}}};
  EXPECT_EQ(rendered(*chat, r), "tools lookup");

  ChatTemplateChoice choice;
  choice.name = "rag";
  EXPECT_EQ(rendered(*ChatTemplate::load(metadata, vocabulary(), choice), r), "rag hi");
  choice.name = "absent";
  EXPECT_EQ(ChatTemplate::load(metadata, vocabulary(), choice).error().code, ErrorCode::gguf_key_missing);
  choice = {.text = "mine", .name = {}};
  EXPECT_EQ(rendered(*ChatTemplate::load(metadata, vocabulary(), choice), r), "mine");
  EXPECT_EQ(ChatTemplate::load(metadata, vocabulary(), choice)->source(), ChatTemplate::Source::given);
}

// 60,000 of them, each rendered several times, took three hours.
TEST(ChatTemplate, ReadsNoMoreTemplatesThanItUses) {
  std::vector<std::pair<std::string, std::string>> texts = {{"tokenizer.chat_template", "{{ messages[0].content }}"},
                                                            {"tokenizer.chat_template.tool_use", "tools"}};
  const auto n_renderings = [&] {
    size_t n = 0;
    jinja::RenderOptions options;
    options.clock = [&n] { return n++, TimePoint(); };
    const auto chat = ChatTemplate::load(metadata_with(texts), vocabulary(), {}, options);
    EXPECT_TRUE(chat.ok());
    return n;
  };
  const size_t n_of_two = n_renderings();
  EXPECT_GT(n_of_two, 0u);
  for (int i = 0; i < 500; i++) texts.emplace_back("tokenizer.chat_template.n" + std::to_string(i), "{{ messages }}");
  EXPECT_EQ(n_renderings(), n_of_two);
}

TEST(ChatTemplate, LeavesOutABrokenTemplateForTools) {
  std::string warning;
  const LogCapture capture([&](LogLevel, std::string_view text) { warning += text; });
  const auto chat = ChatTemplate::load(
      metadata_with({{"tokenizer.chat_template", "main"}, {"tokenizer.chat_template.tool_use", "{% if %}"}}),
      vocabulary());
  ASSERT_TRUE(chat.ok());
  EXPECT_NE(warning.find("tokenizer.chat_template.tool_use is left out: template: line 1"), std::string::npos)
      << warning;
}

TEST(ChatTemplate, StopsLoadingWhenTold) {
  const auto metadata = metadata_with(
      {{"tokenizer.chat_template",
        "{% for i in range(1000) %}{% for j in range(1000) %}{% set x = i * j %}{% endfor %}{% endfor %}"}});
  std::atomic<bool> stop = false;
  size_t n = 0;
  jinja::RenderOptions options;
  // The third look at the clock stands in the middle of a rendering.
  options.clock = [&] { return stop = ++n == 3 || stop, TimePoint(); };
  const auto chat = ChatTemplate::load(metadata, vocabulary(), {}, options, LoadControl(&stop));
  ASSERT_FALSE(chat.ok());
  EXPECT_EQ(chat.error().code, ErrorCode::cancelled);
  EXPECT_LT(n, 100u);
  const LoadControl late(nullptr, std::chrono::steady_clock::now() - std::chrono::hours(1));
  EXPECT_EQ(ChatTemplate::load(metadata, vocabulary(), {}, {}, late).error().code, ErrorCode::limit_exceeded);
}

TEST(ChatTemplate, ReportsABadTemplateWithItsPlace) {
  const auto chat = ChatTemplate::load(metadata_with({{"tokenizer.chat_template", "ok\n  {{ x y }}"}}), vocabulary());
  ASSERT_FALSE(chat.ok());
  EXPECT_EQ(chat.error().code, ErrorCode::template_syntax);
  EXPECT_TRUE(chat.error().message.starts_with("template: line 2, column 8: ")) << chat.error().message;
}

TEST(ChatTemplate, FallsBackAndSaysSo) {
  std::string warning;
  const LogCapture capture([&](LogLevel, std::string_view text) { warning = text; });
  const ChatRequest r = request({message("system", "Be brief."), message("user", "hi")});
  const auto chatml = ChatTemplate::load({}, vocabulary({"<|im_start|>", "<|im_end|>"}));
  EXPECT_EQ(chatml->source(), ChatTemplate::Source::chatml);
  EXPECT_EQ(rendered(*chatml, r),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_NE(warning.find("no chat template"), std::string::npos);
  EXPECT_NE(warning.find("ChatML"), std::string::npos);
  const auto plain = ChatTemplate::load({}, vocabulary({"<|im_start|>"}));
  EXPECT_EQ(plain->source(), ChatTemplate::Source::plain);
  EXPECT_EQ(rendered(*plain, r), "Be brief.\n\nhi");
  EXPECT_NE(warning.find("plain text"), std::string::npos);
}

TEST(ChatTemplate, FindsWhatItSupports) {
  const ChatTemplate full = given(read_text(data_path("templates/chatml.jinja")));
  EXPECT_TRUE(full.capabilities().system);
  EXPECT_TRUE(full.capabilities().tools);
  EXPECT_TRUE(full.capabilities().thinking);
  const ChatTemplate instruct = given(read_text(data_path("templates/instruct.jinja")));
  EXPECT_TRUE(instruct.capabilities().system);
  EXPECT_FALSE(instruct.capabilities().tools);
  EXPECT_FALSE(instruct.capabilities().thinking);
  const ChatTemplate bare = given("{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}x");
  EXPECT_FALSE(bare.capabilities().system);
}

TEST(ChatTemplate, PassesTheRequestsVariables) {
  const ChatTemplate chat =
      given("{{ enable_thinking }}|{{ effort }}|{{ tools is defined }}|{{ add_generation_prompt }}|{{ eos_token }}");
  ChatRequest r = request({message("user", "hi")});
  r.variables = {{"effort", JsonValue("high")}};
  EXPECT_EQ(rendered(chat, r), "|high|False|True|</s>");
  r.variables.emplace_back("enable_thinking", JsonValue(true));
  EXPECT_EQ(rendered(chat, r), "True|high|False|True|</s>");
  r.enable_thinking = false;
  r.add_generation_prompt = false;
  EXPECT_EQ(rendered(chat, r), "False|high|False|False|</s>");
  for (const char* name :
       {"messages", "tools", "bos_token", "eos_token", "add_generation_prompt", "raise_exception", "namespace"}) {
    r.variables = {{name, JsonValue("mine")}};
    EXPECT_TRUE(rendered(chat, r).starts_with("invalid_argument: ")) << name;
  }
}

TEST(ChatTemplate, ParsesToolArgumentsThatAreText) {
  const ChatTemplate objects = given(
      "{% for m in messages %}{% for c in m.tool_calls %}{% for k, v in c.function.arguments|items %}{{ k }}={{ v "
      "}};{% endfor %}{% endfor %}{% endfor %}");
  EXPECT_EQ(rendered(objects, request({with_call("{\"city\": \"Paris\", \"days\": 3}")})), "city=Paris;days=3;");
  EXPECT_EQ(rendered(objects, request({with_call(JsonObject{{"a", JsonValue(1.0)}})})), "a=1.0;");
  EXPECT_EQ(rendered(objects, request({with_call(" ")})), "");
  EXPECT_TRUE(rendered(objects, request({with_call("not json")})).starts_with("template_runtime: template: line 1, "));
  const ChatTemplate texts = given(
      "{% for m in messages %}{% for c in m.tool_calls %}{{ 'args: ' + c.function.arguments }}{% endfor %}{% endfor "
      "%}");
  EXPECT_EQ(rendered(texts, request({with_call("{\"city\":  \"Paris\"}")})), "args: {\"city\":  \"Paris\"}");
  EXPECT_EQ(rendered(texts, request({with_call(JsonObject{{"a", JsonValue(true)}})})), "args: {\"a\":true}");
}

TEST(ChatTemplate, GivesContentInTheFormTheTemplateReads) {
  const JsonArray parts = {JsonObject{{"type", JsonValue("text")}, {"text", JsonValue("one")}},
                           JsonObject{{"type", JsonValue("text")}, {"text", JsonValue("two")}}};
  const JsonArray image = {JsonObject{{"type", JsonValue("image")}}};
  const ChatTemplate text_only = given("{% for m in messages %}{{ '[' + m.content + ']' }}{% endfor %}");
  EXPECT_EQ(rendered(text_only, request({message("user", parts)})), "[one\ntwo]");
  EXPECT_EQ(rendered(text_only, request({message("user", JsonValue())})), "[]");
  EXPECT_EQ(rendered(text_only, request({JsonObject{{"role", JsonValue("user")}}})), "[]");
  EXPECT_TRUE(rendered(text_only, request({message("user", "a"), message("user", image)}))
                  .starts_with("invalid_argument: messages[1]: content[0]: "));
  const ChatTemplate parts_only =
      given("{% for m in messages %}{% for p in m.content %}{{ '<' ~ p.text ~ '>' }}{% endfor %}{% endfor %}");
  EXPECT_EQ(rendered(parts_only, request({message("user", parts)})), "<one><two>");
  EXPECT_EQ(rendered(parts_only, request({message("user", "text")})), "<text>");
  const ChatTemplate prints_list = given("{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_EQ(rendered(prints_list, request({message("user", parts)})), "one\ntwo");
}

TEST(ChatTemplate, TurnsDevelopersIntoSystemsWhereNeeded) {
  const ChatRequest r = request({message("developer", "rules"), message("user", "hi")});
  EXPECT_EQ(rendered(given("{% for m in messages %}{{ m.role }}:{{ m.content }} {% endfor %}"), r),
            "developer:rules user:hi ");
  const ChatTemplate strict = given(
      "{% for m in messages %}{% if m.role in ('system', 'user') %}{{ m.role }}:{{ m.content }} {% else %}{{ "
      "raise_exception('role') }}{% endif %}{% endfor %}");
  EXPECT_EQ(rendered(strict, r), "system:rules user:hi ");
}

TEST(ChatTemplate, RefusesWhatIsNoConversation) {
  const ChatTemplate chat = given("{{ messages }}");
  EXPECT_EQ(rendered(chat, request({"text"})), "invalid_argument: messages[0]: not an object");
  EXPECT_EQ(rendered(chat, request({JsonObject{}})), "invalid_argument: messages[0]: role: not a string");
  EXPECT_EQ(rendered(chat, request({message("user", 1)})),
            "invalid_argument: messages[0]: content: neither a string nor a list of parts");
  EXPECT_EQ(rendered(chat, request({JsonObject{{"role", JsonValue("assistant")}, {"tool_calls", JsonValue("x")}}})),
            "invalid_argument: messages[0]: tool_calls: not a list");
  EXPECT_EQ(rendered(chat, request({JsonObject{{"role", JsonValue("assistant")},
                                               {"content", JsonValue("c")},
                                               {"tool_calls", JsonValue(JsonArray{})}}})),
            "[{'role': 'assistant', 'content': 'c'}]");
}

TEST(ChatTemplate, RendersFromManyThreads) {
  const ChatTemplate chat = given(read_text(data_path("templates/chatml.jinja")));
  const ChatRequest r =
      request({message("system", "s"), message("user", "hi"), message("assistant", "a"), message("user", "b")});
  const std::string expected = rendered(chat, r);
  std::vector<std::thread> threads;
  std::vector<int> n_equal(4);
  for (int& n : n_equal) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; i++) n += rendered(chat, r) == expected ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_equal, std::vector<int>(4, 100));
}

TEST(ChatTemplate, KnowsRealTemplates) {
  RF_NEED_SHARED(folder, "goldens/templates");
  size_t n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string name = entry.path().stem().string();
    const ChatTemplate chat = given(read_text(entry.path().string()));
    const ChatCapabilities& can = chat.capabilities();
    const ChatRequest r = request(
        {message("user", JsonArray{JsonObject{{"type", JsonValue("text")}, {"text", JsonValue("part of a text")}}})});
    EXPECT_NE(rendered(chat, r).find("part of a text"), std::string::npos) << name << ": " << rendered(chat, r);
    EXPECT_EQ(can.system, name != "google-gemma-2-2b-it") << name;
    EXPECT_TRUE(can.tools || !name.starts_with("Qwen")) << name;
    EXPECT_TRUE(can.thinking || !(name == "Qwen-Qwen3-0.6B" || name == "Qwen3.5-4B")) << name;
    EXPECT_FALSE(can.thinking && name == "Qwen-Qwen2.5-7B-Instruct") << name;
    n++;
  }
  EXPECT_EQ(n, 49u);
}

}  // namespace
}  // namespace rocmforge::chat
