#include "chat/format_probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "support/support.h"

namespace rocmforge::chat {
namespace {

using testing::read_text;

FormatChoice format_of(std::string text, std::vector<std::string> tokens = {}) {
  static const gguf::Metadata empty;
  const auto contains = [tokens](std::string_view name) { return std::ranges::find(tokens, name) != tokens.end(); };
  auto loaded =
      ChatTemplate::load(empty, {.bos = "<s>", .eos = "</s>", .contains = contains}, {.text = text, .name = {}});
  EXPECT_TRUE(loaded.ok());
  return loaded.ok() ? *find_format(*loaded, contains) : FormatChoice{};
}

struct Known {
  const char *file, *format;
  FoundBy found_by = FoundBy::probe;
};

// Those that are found by the probe: parse(render(calls)) == calls holds for them, nasty strings included.
constexpr Known kKnown[] = {
    {"Apertus-8B-Instruct", "apertus"},
    {"Apriel-1.6-15b-Thinker-fixed", "tool-calls-array"},
    {"ByteDance-Seed-OSS", "seed-oss"},
    {"Cohere2MoE", "command-r7b"},
    {"GLM-4.6", "glm-4.5"},
    {"GLM-4.7-Flash", "glm-4.7"},
    {"GigaChat3.1-10B-A1.8B", "gigachat-3"},
    {"Kimi-K2-Instruct", "kimi-k2", FoundBy::markers},  // it changes a list while rendering, which is refused
    {"Kimi-K2-Thinking", "kimi-k2", FoundBy::markers},
    {"Kimi-K3", "kimi-k3"},
    {"LFM2-8B-A1B", "hermes", FoundBy::instruction},
    {"LFM2.5-8B-A1B", "lfm2"},
    {"LFM2.5-Instruct", "hermes", FoundBy::instruction},
    {"MiMo-VL", "hermes"},
    {"MiniMax-M2", "minimax-m2"},
    {"MiniMax-M3", "hermes", FoundBy::instruction},
    {"Mistral-Small-3.2-24B-Instruct-2506", "mistral-call-id"},
    {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes"},
    {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes"},
    {"Qwen-QwQ-32B", "hermes"},
    {"Qwen-Qwen2.5-7B-Instruct", "hermes"},
    {"Qwen-Qwen3-0.6B", "hermes"},
    {"Qwen3.5-4B", "qwen3-coder"},
    {"StepFun3.5-Flash", "qwen3-coder"},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek-v3"},
    {"deepseek-ai-DeepSeek-V3.1", "deepseek-v3.1"},
    {"deepseek-ai-DeepSeek-V3.2", "deepseek-dsml-v3.2"},
    {"google-gemma-2-2b-it", "hermes", FoundBy::instruction},
    {"google-gemma-4-31B-it", "gemma-4"},
    {"google-gemma-4-31B-it-interleaved", "gemma-4"},
    {"ibm-granite-granite-4.0", "hermes"},
    {"ibm-granite-granite-4.1", "hermes"},
    {"llama-cpp-deepseek-r1", "hermes", FoundBy::instruction},
    {"llama-cpp-rwkv-world", "hermes", FoundBy::instruction},
    {"meetkai-functionary-medium-v3.1", "functionary-3.1"},
    {"meta-llama-Llama-3.1-8B-Instruct", "llama3-json"},
    {"meta-llama-Llama-3.2-3B-Instruct", "llama3-json"},
    {"meta-llama-Llama-3.3-70B-Instruct", "llama3-json"},
    {"microsoft-Phi-3.5-mini-instruct", "hermes", FoundBy::instruction},
    {"mistralai-Ministral-3-14B-Reasoning-2512", "mistral-args"},
    {"mistralai-Mistral-Nemo-Instruct-2407", "mistral-array"},
    {"muse-glimmer", "hermes", FoundBy::instruction},
    {"openai-gpt-oss-120b", "gpt-oss"},
    {"openbmb-MiniCPM5-1B", "minicpm5"},
    {"poolside-Laguna-S-2.1", "glm-4.7"},
    {"poolside-Laguna-XS-2.1", "glm-4.5"},
    {"poolside-Laguna-XS.2", "glm-4.5"},
    {"tencent-Hy3", "hy3"},
    {"unsloth-Apriel-1.5", "tool-calls-array"},
};

TEST(FormatProbe, FindsTheFormatOfEachTemplate) {
  RF_NEED_SHARED(folder, "goldens/templates");
  for (const Known& known : kKnown) {
    const FormatChoice choice = format_of(read_text(folder + "/" + known.file + ".jinja"));
    EXPECT_EQ(choice.format->name, known.format) << known.file;
    EXPECT_EQ(name_of(choice.found_by), name_of(known.found_by)) << known.file;
  }
}

TEST(FormatProbe, ATemplateThatWritesNoCallsIsKnownByItsMarkers) {
  const std::string offers =
      "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}";
  EXPECT_EQ(format_of(offers, {"<|tool_call_start|>", "<|tool_call_end|>"}).format->name, "lfm2");
  EXPECT_EQ(format_of("{# <|tool_call_begin|> <|tool_call_argument_begin|> <|tool_calls_section_begin|> #}" + offers)
                .format->name,
            "kimi-k2");
}

TEST(FormatProbe, AModelWithoutAFormatIsToldOne) {
  const FormatChoice choice = format_of("{% for m in messages %}{{ m.role + m.content }}{% endfor %}");
  EXPECT_EQ(choice.format->name, "hermes");
  EXPECT_EQ(choice.found_by, FoundBy::instruction);
}

// A hostile template can make each of 32 renderings take a quarter of a second.
TEST(FormatProbe, StopsWhenToldToAndAfterItsTime) {
  const gguf::Metadata empty;
  const std::string slow =
      "{% for i in range(1000) %}{% for j in range(1000) %}{% set x = 'abc' * 100 %}{% endfor %}{% endfor %}";
  const auto loaded = ChatTemplate::load(empty, {}, {.text = slow, .name = {}});
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const auto contains = [](std::string_view) { return false; };
  std::atomic<bool> stop = true;
  EXPECT_EQ(find_format(*loaded, contains, LoadControl(&stop)).error().code, ErrorCode::cancelled);
  const TimePoint began = std::chrono::steady_clock::now();
  const auto found = find_format(*loaded, contains);
  EXPECT_LT(std::chrono::steady_clock::now() - began, kMaxProbeTime + std::chrono::seconds(1));
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->found_by, FoundBy::instruction);
}

}  // namespace
}  // namespace rocmforge::chat
