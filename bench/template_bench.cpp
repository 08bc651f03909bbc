// Chat templates: parsing one, and rendering conversations with it.

#include <benchmark/benchmark.h>

#include <fstream>
#include <iterator>
#include <string>

#include "base/json.h"
#include "chat/jinja/template.h"

namespace {

using namespace rocmforge;

std::string read_text(const std::string& name) {
  std::ifstream file(RF_SOURCE_DIR "/tests/data/templates/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

JsonValue context(const char* name) {
  const auto all = parse_json(read_text("contexts.json"));
  return *all->find(name);
}

void parse(benchmark::State& state, const char* file) {
  const std::string source = read_text(file);
  for (auto _ : state) benchmark::DoNotOptimize(jinja::Template::parse(source));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(source.size()));
}

void render(benchmark::State& state, const char* file, const char* context_name) {
  const auto parsed = jinja::Template::parse(read_text(file));
  const JsonValue variables = context(context_name);
  for (auto _ : state) benchmark::DoNotOptimize(parsed->render(variables));
}

// The same conversation again and again, up to n messages.
void render_long(benchmark::State& state, const char* file) {
  const auto parsed = jinja::Template::parse(read_text(file));
  JsonArray messages;
  for (int64_t i = 0; i < state.range(0); i++) {
    const std::string text(500, static_cast<char>('a' + i % 26));
    messages.push_back(
        JsonObject{{"role", JsonValue(i % 2 == 0 ? "user" : "assistant")}, {"content", JsonValue(text)}});
  }
  const JsonValue variables = JsonObject{{"messages", JsonValue(std::move(messages))}};
  for (auto _ : state) benchmark::DoNotOptimize(parsed->render(variables));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

BENCHMARK_CAPTURE(parse, chatml, "chatml.jinja")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(render, one_message, "chatml.jinja", "user")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(render, four_turns, "chatml.jinja", "turns")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(render, tools, "chatml.jinja", "tools")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(render, tools_typescript, "typescript.jinja", "tools")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(render_long, messages, "chatml.jinja")->Arg(10)->Arg(100)->Arg(1000)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
