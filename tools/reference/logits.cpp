// Writes what llama.cpp makes of a model, in the form that tests/support/golden.h reads: the input tokens, all logits
// at two positions, 16 greedy tokens. It is no part of the build; with llama.cpp in PEER and built in PEER/build:
//
//   g++ -std=c++20 tools/reference/logits.cpp -I PEER/include -I PEER/ggml/include -L PEER/build/bin -lllama -lggml
//       -lggml-base -Wl,-rpath,PEER/build/bin -o reference-logits
//   ./reference-logits MODEL.gguf > MODEL.txt

#include <llama.h>

#include <algorithm>
#include <cstdio>
#include <vector>

namespace {

constexpr int kTokens = 48, kGreedy = 16;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "reference-logits: %s\n", what);
  std::exit(1);
}

// Evaluates the tokens from position `past` on; the logits after the last are then to be had.
void evaluate(llama_context* context, const std::vector<llama_token>& tokens, int past) {
  llama_batch batch = llama_batch_init(static_cast<int>(tokens.size()), 0, 1);
  for (size_t i = 0; i < tokens.size(); i++) {
    batch.token[i] = tokens[i];
    batch.pos[i] = past + static_cast<int>(i);
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = true;
  }
  batch.n_tokens = static_cast<int>(tokens.size());
  if (llama_decode(context, batch) != 0) fail("it does not decode");
  llama_batch_free(batch);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) fail("usage: reference-logits MODEL.gguf");
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_backend_init();
  llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (!model) fail("the model does not load");
  llama_context_params params = llama_context_default_params();
  params.n_ctx = 256;
  params.n_threads = params.n_threads_batch = 1;
  params.type_k = params.type_v = GGML_TYPE_F32;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  llama_context* context = llama_init_from_model(model, params);
  if (!context) fail("no context");
  const int n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));

  std::vector<llama_token> tokens = {1};
  for (int i = 1; i < kTokens; i++) tokens.push_back(3 + (i * 137 + i * i * 11) % (n_vocab - 3));
  std::printf("tokens");
  for (const llama_token t : tokens) std::printf(" %d", t);
  evaluate(context, tokens, 0);
  for (const int position : {kTokens / 2, kTokens - 1}) {
    std::printf("\nlogits %d", position);
    const float* logits = llama_get_logits_ith(context, position);
    for (int i = 0; i < n_vocab; i++) std::printf(" %.9g", logits[i]);
  }
  std::printf("\ngreedy");
  int last = kTokens - 1;
  for (int i = 0; i < kGreedy; i++) {
    const float* logits = llama_get_logits_ith(context, last);
    const auto best = static_cast<llama_token>(std::max_element(logits, logits + n_vocab) - logits);
    std::printf(" %d", best);
    evaluate(context, {best}, kTokens + i);
    last = 0;
  }
  std::printf("\n");
}
