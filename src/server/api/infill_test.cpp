// Filling in the middle: how a prompt is put together, and where requests may ask for it. llama.cpp's own paths.

#include "server/api/infill.h"

#include "server/api/scripted_model.h"
#include "tokenizer/vocabulary_builder.h"

namespace rocmforge::server {
namespace {

using testing::Answer;
using testing::at;
using testing::ScriptedApi;
using testing::text;

// Bytes and the marks of a model for code.
tokenizer::Tokenizer code_tokenizer(bool has_repository) {
  auto builder = tokenizer::small_bpe();
  for (const char* mark : {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}) builder.add(mark, 3);
  if (has_repository) builder.add("<|repo_name|>", 3).add("<|file_sep|>", 3);
  return tokenizer::Tokenizer::load(builder.finish("gpt2").build()).value();
}

std::string shown(const tokenizer::Tokenizer& tokenizer, const std::vector<TokenId>& tokens) {
  return *tokenizer.decode(tokens, true);
}

const InfillText kGap{.before = "def f():\n", .behind = "\nf()", .beginning = "  re"};

TEST(Infill, PutsTheMarksAroundTheGap) {
  const auto tokenizer = code_tokenizer(false);
  ASSERT_TRUE(can_infill(tokenizer));
  EXPECT_EQ(shown(tokenizer, *infill_prompt(tokenizer, kGap)),
            "<|fim_prefix|>def f():\n<|fim_suffix|>\nf()<|fim_middle|>  re");
}

TEST(Infill, PutsOtherFilesInFront) {
  InfillText text = kGap;
  text.files = {{"a.py", "x = 1\n"}, {"b.py", "y"}};
  const std::string gap = "<|fim_prefix|>def f():\n<|fim_suffix|>\nf()<|fim_middle|>  re";
  const auto plain = code_tokenizer(false), marked = code_tokenizer(true);
  EXPECT_EQ(shown(plain, *infill_prompt(plain, text)), "\n\n--- snippet ---\n\nx = 1\n\n\n--- snippet ---\n\ny" + gap);
  EXPECT_EQ(shown(marked, *infill_prompt(marked, text)),
            "<|repo_name|>myproject\n<|file_sep|>a.py\nx = 1\n<|file_sep|>b.py\ny<|file_sep|>filename\n" + gap);
}

TEST(Infill, TextsOfMarksStayTexts) {
  const auto tokenizer = code_tokenizer(false);
  const auto tokens = *infill_prompt(tokenizer, {.before = "<|fim_middle|>", .behind = ""});
  EXPECT_EQ(std::ranges::count(tokens, *tokenizer.vocabulary().special.fim_mid), 1);
}

class InfillApiTest : public ScriptedApi {
 protected:
  void use_code_model() {
    code_ = std::make_unique<tokenizer::Tokenizer>(code_tokenizer(true));
    model_->tokenizer = code_.get();
  }
  std::string prompt_of(size_t i) { return shown(*code_, submitted_[i].request.prompt); }
  std::unique_ptr<tokenizer::Tokenizer> code_;
};

TEST_F(InfillApiTest, IsAskedForByLlamaCppsOpenAisAndOllamasClients) {
  use_code_model();
  const auto exchange = send("POST", "/infill",
                             R"json({"input_prefix":"def f():\n","input_suffix":"\nf()","prompt":"  re","n_predict":8,
                                 "input_extra":[{"filename":"a.py","text":"x"}],"samplers":[],"t_max_predict_ms":500})json");
  ASSERT_EQ(submitted_.size(), 1u) << answer_of(exchange).body;
  EXPECT_EQ(prompt_of(0),
            "<|repo_name|>myproject\n<|file_sep|>a.py\nx<|file_sep|>filename\n"
            "<|fim_prefix|>def f():\n<|fim_suffix|>\nf()<|fim_middle|>  re");
  EXPECT_EQ(submitted_[0].request.max_tokens, 8u);
  send_tokens(0, {"turn", " 1"});
  send_finish(0, FinishReason::length);
  const JsonValue json = answer_of(exchange).json();
  EXPECT_EQ(text(at(json, "content")), "turn 1");
  EXPECT_EQ(text(at(json, "stop")), "true");
  EXPECT_EQ(text(at(json, "stop_type")), "limit");
  EXPECT_EQ(text(at(json, "tokens_cached")), "2");
  EXPECT_EQ(text(at(json, "timings", "prompt_n")), "5");

  post("/v1/completions", R"json({"prompt":"def f():\n","suffix":"\nf()"})json");
  ASSERT_EQ(submitted_.size(), 2u);
  EXPECT_EQ(prompt_of(1), "<|fim_prefix|>def f():\n<|fim_suffix|>\nf()<|fim_middle|>");
  post("/api/generate", R"json({"model":"story","prompt":"def f():\n","suffix":"\nf()"})json");
  ASSERT_EQ(submitted_.size(), 3u);
  EXPECT_EQ(prompt_of(2), prompt_of(1));
}

TEST_F(InfillApiTest, IsRefusedForModelsWithoutTheMarks) {
  for (const auto& [path, body, param] : std::initializer_list<std::array<const char*, 3>>{
           {"/infill", R"json({"input_prefix":"a","input_suffix":"b"})json", "input_suffix"},
           {"/v1/completions", R"json({"prompt":"a","suffix":"b"})json", "suffix"}}) {
    const Answer answer = post(path, body);
    EXPECT_EQ(answer.status, 400) << path;
    EXPECT_EQ(text(at(answer.json(), "error", "param")), param);
    EXPECT_EQ(text(at(answer.json(), "error", "code")), "unsupported_feature");
  }
  EXPECT_EQ(post("/api/generate", R"json({"model":"story","prompt":"a","suffix":"b"})json").status, 400);
}

TEST_F(InfillApiTest, RefusesWhatIsMalformed) {
  use_code_model();
  for (const auto& [body, param] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"json({"input_prefix":1})json", "input_prefix"},
           {R"json({"input_extra":"x"})json", "input_extra"},
           {R"json({"input_extra":[{"filename":"a"}]})json", "input_extra.text"},
           {R"json({"input_prefix":"a","input_suffix":"b","n":2})json", "n"}}) {
    const Answer answer = post("/infill", body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_EQ(text(at(answer.json(), "error", "param")), param) << answer.body;
  }
  EXPECT_EQ(post("/v1/completions", R"json({"prompt":["a","b"],"suffix":"c"})json").status, 400);
  EXPECT_TRUE(submitted_.empty());
}

TEST_F(InfillApiTest, CompletionsOfLlamaCppStream) {
  const auto exchange = send("POST", "/completion", R"json({"prompt":"Once","stream":true,"n_predict":2})json");
  ASSERT_EQ(submitted_.size(), 1u);
  send_tokens(0, {" upon", " a"});
  send_finish(0);
  const std::vector<std::string> events = answer_of(exchange).events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(text(at(*parse_json(events[0]), "content")), " upon");
  EXPECT_EQ(text(at(*parse_json(events[1]), "stop")), "false");
  EXPECT_EQ(text(at(*parse_json(events[2]), "stop")), "true");
  EXPECT_EQ(text(at(*parse_json(events[2]), "stop_type")), "eos");
}

TEST_F(InfillApiTest, PropsAndSlotsTellWhatIsServed) {
  ApiOptions options;
  options.n_parallel = 3;
  options.sampling.temperature = 0.5f;
  start(options);
  entries_[0].engine->n_running = 2;
  const JsonValue props = ask("GET", "/props").json();
  EXPECT_EQ(text(at(props, "default_generation_settings", "n_ctx")), "1024");
  EXPECT_EQ(text(at(props, "default_generation_settings", "params", "temperature")), "0.5");
  EXPECT_EQ(text(at(props, "total_slots")), "3");
  EXPECT_EQ(text(at(props, "chat_template")), template_->text());
  EXPECT_EQ(text(at(props, "bos_token")), "<s>");
  EXPECT_EQ(text(at(props, "model_path")), "story") << "not where it lies";
  const JsonValue slots = ask("GET", "/slots").json();
  ASSERT_EQ(slots.as<JsonArray>()->size(), 3u);
  EXPECT_EQ(text(at(slots, 1, "is_processing")), "true");
  EXPECT_EQ(text(at(slots, 2, "is_processing")), "false");
  EXPECT_EQ(text(at(slots, 0, "n_ctx")), "1024");
}

// --- further names

TEST_F(InfillApiTest, AliasesStandForModels) {
  ApiOptions options;
  options.aliases = {{"claude-local", "story"}, {"gone", "no-such-model"}};
  start(options);
  const auto exchange = send("POST", "/v1/chat/completions", chat(R"json("model":"claude-local")json"));
  ASSERT_EQ(submitted_.size(), 1u);
  send_tokens(0, {" a"});
  send_finish(0);
  EXPECT_EQ(text(at(answer_of(exchange).json(), "model")), "claude-local") << "as the client named it";
  const JsonValue listed = ask("GET", "/v1/models").json();
  ASSERT_EQ(at(listed, "data").as<JsonArray>()->size(), 3u) << "an alias of nothing is not listed";
  EXPECT_EQ(text(at(listed, "data", 2, "id")), "claude-local");
  EXPECT_EQ(text(at(ask("GET", "/v1/models/claude-local").json(), "id")), "claude-local");
  const JsonValue anthropic = ask("GET", "/v1/models", "", {{"anthropic-version", "2023-06-01"}}).json();
  EXPECT_EQ(text(at(anthropic, "data", 2, "id")), "claude-local");
  EXPECT_EQ(post("/api/chat", R"json({"model":"claude-local:latest","stream":false,
                                  "messages":[{"role":"user","content":"x"}]})json")
                .status,
            0)
      << "it is being answered";
  EXPECT_EQ(submitted_.size(), 2u);
  EXPECT_EQ(post("/v1/completions", R"json({"prompt":"x","model":"gone"})json").status, 404);
}

}  // namespace
}  // namespace rocmforge::server
