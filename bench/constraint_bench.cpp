// What a constraint costs while tokens are generated: free and constrained ones alternating, one and many at once, by
// the processor time of the whole process per token.
//
//     constraint_bench MODEL.gguf [TOKENS [ROUNDS [SEQUENCES...]]]

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <future>
#include <map>
#include <vector>

#include "engine/engine.h"
#include "grammar/vocabulary_constraints.h"

namespace {

using namespace rocmforge;

// Text inside of JSON, as models answer with; and short fields, where structure is dense.
constexpr std::pair<const char*, const char*> kSchemas[] = {
    {"free", ""},
    {"text", R"({"type":"object","properties":{"story":{"type":"string","minLength":4000}},"required":["story"]})"},
    {"fields",
     R"({"type":"array","minItems":500,"items":{"type":"object","properties":{"name":{"type":"string","maxLength":20},
        "kind":{"enum":["person","animal","place"]},"age":{"type":"integer","minimum":0,"maximum":99},"is_good":{"type":"boolean"}},
        "required":["name","kind","age","is_good"],"additionalProperties":false}})"}};

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Seconds of the processor per token.
double run(Engine& engine, grammar::VocabularyConstraints& constraints, const char* schema, uint32_t n_tokens,
           uint32_t n_sequences) {
  const auto prompt = engine.tokenizer().encode("Once upon a time", {.add_bos = true}).value();
  std::vector<std::promise<uint32_t>> done(n_sequences);
  const double start = processor_seconds();
  for (uint32_t i = 0; i < n_sequences; i++) {
    GenerationRequest request;
    request.prompt = prompt;
    request.sampling = {.temperature = 0.8f, .seed = i};
    request.max_tokens = n_tokens;
    request.ignore_end_of_text = true;
    if (*schema != 0) {
      request.constraint =
          ConstraintChoice{.constraint = constraints.compile({.text = schema, .schema = {.any_order = false}}).value(),
                           .vocabulary = constraints.vocabulary()};
    }
    const auto submitted = engine.submit(std::move(request), [&done, i](RequestEvent&& event) {
      if (const auto* finish = std::get_if<FinishEvent>(&event)) done[i].set_value(finish->usage.n_generated);
    });
    if (!submitted.ok()) fmt::print(stderr, "{}\n", submitted.error().message), std::exit(1);
  }
  uint64_t n_generated = 0;
  for (auto& one : done) n_generated += one.get_future().get();
  return (processor_seconds() - start) / static_cast<double>(n_generated);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: constraint_bench MODEL.gguf [TOKENS [ROUNDS [SEQUENCES...]]]\n");
    return 2;
  }
  auto model = Model::open(argv[1], {});
  if (!model.ok()) return fmt::print(stderr, "{}\n", model.error().message), 1;
  auto engine = Engine::create(std::move(*model), {});
  if (!engine.ok()) return fmt::print(stderr, "{}\n", engine.error().message), 1;
  grammar::VocabularyConstraints constraints((*engine)->tokenizer());
  const auto n_tokens = static_cast<uint32_t>(argc > 2 ? std::atoi(argv[2]) : 200);
  const int n_rounds = argc > 3 ? std::atoi(argv[3]) : 5;
  std::vector<uint32_t> sizes;
  for (int i = 4; i < argc; i++) sizes.push_back(static_cast<uint32_t>(std::atoi(argv[i])));
  if (sizes.empty()) sizes = {1, 64};
  for (const uint32_t n_sequences : sizes) {
    std::map<std::string, std::vector<double>> times;
    for (int round = -1; round < n_rounds; round++) {  // the first warms the caches
      for (const auto& [name, schema] : kSchemas) {
        const auto before = (*engine)->stats().choices;
        const double seconds = run(**engine, constraints, schema, n_tokens, n_sequences);
        const auto after = (*engine)->stats().choices;
        if (round >= 0) times[name].push_back(seconds);
        if (round != 0) continue;
        fmt::print("{:>3} x {:<7} free {}, candidates {}, allowed {}, whole rows {}, forced {}\n", n_sequences, name,
                   after.n_free - before.n_free, after.n_candidates - before.n_candidates,
                   after.n_allowed - before.n_allowed, after.n_whole_rows - before.n_whole_rows,
                   after.n_forced - before.n_forced);
      }
    }
    const auto median = [&](const std::string& name) {
      std::vector<double>& all = times[name];
      std::ranges::sort(all);
      return all[all.size() / 2];
    };
    for (const auto& [name, schema] : kSchemas) {
      fmt::print("{:>3} x {:<7} {:8.1f} us of processor a token, {:6.1f} % of the free rate\n", n_sequences, name,
                 1e6 * median(name), 100 * median("free") / median(name));
    }
  }
  return 0;
}
