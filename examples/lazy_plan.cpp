// A tour of the lazy plan: open a model without reading its weights, watch them arrive, write a few words.
//
// usage: lazy_plan MODEL.gguf

#include <rocmforge/rocmforge.h>

#include <cstdio>

using namespace rocmforge;

namespace {

void show(const char* when, const WeightStore& weights) {
  const LoadingStats stats = weights.loading_stats();
  std::printf("%-22s %3llu of %llu tensors, %8llu bytes read\n", when,
              static_cast<unsigned long long>(stats.n_tensors_loaded), static_cast<unsigned long long>(stats.n_tensors),
              static_cast<unsigned long long>(stats.read_bytes));
}

Result<void> tour(const char* path) {
  // Opening reads the header and makes the plan: every weight has a handle and an address, none has content.
  const std::unique_ptr<Model> model = TRY(Model::open(path));
  WeightStore& weights = model->plan().weights();
  show("after opening:", weights);

  // A handle knows its tensor without reading it; get() brings the content and keeps it while the lease lives.
  const WeightId queries = model->plan().layer(0).q.value();
  const LazyTensor& q = weights.tensor(queries);
  std::printf("  %.*s: %llu rows of %llu, %.*s\n", static_cast<int>(q.name.size()), q.name.data(),
              static_cast<unsigned long long>(q.shape.n_rows), static_cast<unsigned long long>(q.shape.row_elements),
              static_cast<int>(dtype_info(q.shape.dtype).name.size()), dtype_info(q.shape.dtype).name.data());
  {
    const WeightStore::Lease lease = TRY(weights.get(queries));
    show("after get:", weights);
  }

  // Whole layers may be asked for ahead of time.
  TRY(weights.preload_layers(0, 2));
  std::printf("  layer 1 is %s, layer 2 is %s\n", weights.is_layer_loaded(1) ? "loaded" : "not loaded",
              weights.is_layer_loaded(2) ? "loaded" : "not loaded");
  show("after preload_layers:", weights);

  // A pass loads the rest behind its own computation.
  const std::unique_ptr<Generator> generator = TRY(Generator::create(model->plan()));
  const tokenizer::Tokenizer& tokenizer = *TRY(model->tokenizer());
  const auto prompt = TRY(tokenizer.encode("Once upon a time", {.parse_special = false, .add_bos = true}));
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = 16;
  const auto print = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return true;
  };
  std::printf("  Once upon a time");
  TRY(generator->generate(tokenizer, prompt, options, print));
  std::printf("\n");
  show("after generating:", weights);

  // One weight, or everything, can be given back; the next use loads it again.
  weights.evict(queries);
  show("after evict:", weights);
  weights.clear();
  show("after clear:", weights);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: lazy_plan MODEL.gguf\n");
    return 2;
  }
  const Result<void> result = tour(argv[1]);
  if (result.ok()) return 0;
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  return 1;
}
