#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "base/json.h"
#include "base/units.h"
#include "cpu/memory_rate.h"
#include "engine_commands.h"
#include "terminal.h"

namespace rocmforge::apps {
namespace {

struct Measured {
  uint32_t n_tokens = 0;  // per sequence
  uint32_t n_sequences = 1;
  double tokens_per_second = 0;
  double bytes_per_second = 0;  // of weights, decoding only
};

double now() {
  return seconds(std::chrono::steady_clock::now().time_since_epoch());
}

std::vector<TokenId> random_tokens(uint32_t n, uint32_t n_vocab) {
  std::vector<TokenId> tokens(n);
  uint64_t seed = 42;
  for (TokenId& id : tokens) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    id = TokenId(static_cast<int32_t>((seed >> 33) % n_vocab));
  }
  return tokens;
}

// The bytes of weights that one decoded token touches: every matrix, of experts the used ones, of an embedding that is
// not also the output one row.
uint64_t bytes_per_token(const ExecutionPlan& plan) {
  uint64_t total = 0, of_experts = 0;
  const ExpertSpec& experts = plan.spec().experts;
  for (const LazyTensor& tensor : plan.weights().tensors()) {
    if (tensor.id == plan.token_embedding() && !plan.is_tied()) continue;
    (tensor.expert ? of_experts : total) += tensor.packed_bytes;
  }
  return total + (of_experts > 0 ? of_experts / experts.n_experts * experts.n_used : 0);
}

// One model under measurement; every figure is the best of a few repetitions.
class Bench {
 public:
  Bench(const Model& model, const BenchCommand& options) : plan_(model.plan()), options_(options) {}

  Result<Measured> prefill(uint32_t n_tokens) const {
    Session session = TRY(make_session(n_tokens));
    const auto tokens = random_tokens(n_tokens, plan_.spec().n_vocab);
    double best = 1e30;
    for (uint32_t i = 0; i <= options_.n_repetitions; i++) {  // the first one warms up
      session.rewind(0);
      const double start = now();
      TRY(session.evaluate(tokens));
      if (i > 0) best = std::min(best, now() - start);
    }
    return Measured{n_tokens, 1, n_tokens / best, 0};
  }

  // Greedy decoding after as many tokens as asked for, in n_sequences at once.
  Result<Measured> decode(uint32_t n_tokens, uint32_t n_sequences) const {
    constexpr uint32_t kPromptRows = 64;
    const uint32_t n_vocab = plan_.spec().n_vocab, depth = options_.depth;
    const uint32_t n_pages = pages_for_tokens(depth + n_tokens + 1);
    const uint32_t n_rows = std::max(n_sequences, std::min(depth, kPromptRows));
    TRY(plan_.backend().reserve(
        plan_.pass_memory(n_rows, n_sequences, n_pages * n_sequences, options_.engine.kv_type, n_sequences)));
    PagePool pool(n_pages * n_sequences);
    std::vector<BlockTable> pages;
    const auto prompt = random_tokens(depth, n_vocab);
    for (uint32_t s = 0; s < n_sequences; s++) {
      pages.emplace_back(pool);
      TRY(pages.back().grow_to(depth + n_tokens + 1));
      for (uint32_t first = 0; first < depth; first += kPromptRows) {
        Batch batch;
        add_run(batch, s, std::span(prompt).subspan(first, std::min(kPromptRows, depth - first)), first, pages[s]);
        TRY(forward(plan_, batch));
      }
    }
    Batch batch;
    double best = 1e30;
    for (uint32_t repetition = 0; repetition < options_.n_repetitions; repetition++) {
      std::vector<TokenId> next = random_tokens(n_sequences, n_vocab);
      double start = 0;
      for (uint32_t position = 0; position <= n_tokens; position++) {
        if (position == 1) start = now();
        batch.clear();
        for (uint32_t s = 0; s < n_sequences; s++) {
          add_run(batch, s, std::span(&next[s], 1), depth + position, pages[s]);
        }
        TRY(forward(plan_, batch));
        const auto candidates = TRY(plan_.backend().read_candidates(n_sequences, plan_.logits()));
        for (uint32_t s = 0; s < n_sequences; s++) next[s] = TokenId(static_cast<int32_t>(candidates[s].top[0].id));
      }
      best = std::min(best, now() - start);
    }
    const double passes_per_second = n_tokens / best;
    return Measured{n_tokens, n_sequences, passes_per_second * n_sequences,
                    passes_per_second * static_cast<double>(bytes_per_token(plan_))};
  }

 private:
  // The tokens of sequence s, whose state stays in a slot of its own.
  void add_run(Batch& batch, uint32_t s, std::span<const TokenId> tokens, uint32_t first,
               const BlockTable& pages) const {
    batch.add(tokens, first, pages.pages());
    if (!plan_.has_states()) return;
    if (first > 0) batch.sequences.back().state_before = StateId(s);
    batch.sequences.back().state_after = StateId(s);
  }

  Result<Session> make_session(uint32_t n_context) const {
    return Session::create(plan_, {.n_context = n_context, .kv_type = options_.engine.kv_type});
  }

  const ExecutionPlan& plan_;
  const BenchCommand& options_;
};

// What the memory budget has to leave room for.
PassSize largest_pass(const BenchCommand& options) {
  const auto largest = [](std::initializer_list<uint32_t> least, const std::vector<uint32_t>& of) {
    return std::max(std::max(least), of.empty() ? 0 : *std::ranges::max_element(of));
  };
  PassSize pass;
  pass.max_outputs = largest({1}, options.batches);
  pass.max_rows = std::max(pass.max_rows, pass.max_outputs);
  pass.n_pages = std::max(pages_for_tokens(largest({1}, options.n_prompt)),
                          pages_for_tokens(largest({1}, options.n_decode) + 1) * pass.max_outputs);
  pass.n_states = std::max(ExecutionPlan::kStatesAlone, pass.max_outputs);
  return pass;
}

void write_json(JsonWriter& w, std::string_view name, const std::vector<Measured>& rows, double limit) {
  w.key(name).begin_array();
  for (const Measured& m : rows) {
    w.begin_object().key("n_tokens").value(m.n_tokens);
    if (name == "batched") w.key("n_sequences").value(m.n_sequences);
    w.key("tokens_per_second").value(m.tokens_per_second);
    if (m.bytes_per_second > 0) {
      w.key("gigabytes_per_second").value(m.bytes_per_second / 1e9);
      if (limit > 0) w.key("share_of_limit").value(m.bytes_per_second / limit);
    }
    w.end_object();
  }
  w.end_array();
}

}  // namespace

Result<void> bench(const BenchCommand& options) {
  const std::unique_ptr<Model> model = TRY(open_model(options.engine, largest_pass(options)));
  if (!model->plan().has_logits()) return no_logits(model->plan());
  TRY(model->load(LoadMode::eager));
  // Of the device that computes; a GPU's is not measured here.
  const bool on_cpu = model->backend().name().starts_with("cpu");
  const double limit = on_cpu ? cpu::measure_read_rate(options.engine.n_threads) : 0;
  const Bench bench(*model, options);
  std::vector<Measured> prefill, decode, batched;
  for (const uint32_t n : options.n_prompt) {
    if (n > 0) prefill.push_back(TRY(bench.prefill(n)));
  }
  for (const uint32_t n : options.n_decode) {
    if (n == 0) continue;
    decode.push_back(TRY(bench.decode(n, 1)));
    for (const uint32_t b : options.batches) {
      if (b > 1) batched.push_back(TRY(bench.decode(n, b)));
    }
  }
  if (options.json) {
    JsonWriter w;
    w.begin_object().key("model").value(model->file().file(0).path()).key("backend").value(model->backend().name());
    if (limit > 0) w.key("memory_read_gigabytes_per_second").value(limit / 1e9);
    write_json(w, "prefill", prefill, limit);
    write_json(w, "decode", decode, limit);
    write_json(w, "batched", batched, limit);
    w.end_object();
    return print(w.take() + "\n");
  }
  Table table({Table::Align::left, Table::Align::right, Table::Align::right, Table::Align::right, Table::Align::right});
  table.add({"", "tokens", "tok/s", "GB/s", "of limit"});
  const auto add = [&](const std::string& name, const Measured& m) {
    table.add({name, std::to_string(m.n_tokens), fmt::format("{:.1f}", m.tokens_per_second),
               m.bytes_per_second > 0 ? fmt::format("{:.1f}", m.bytes_per_second / 1e9) : "",
               m.bytes_per_second > 0 && limit > 0 ? fmt::format("{:.0f} %", 100 * m.bytes_per_second / limit) : ""});
  };
  for (const Measured& m : prefill) add("prefill", m);
  for (const Measured& m : decode) add("decode", m);
  for (const Measured& m : batched) add(fmt::format("decode, {} sequences", m.n_sequences), m);
  const std::string limit_text = limit > 0 ? fmt::format("; memory reads at {:.1f} GB/s", limit / 1e9) : "";
  return print(
      fmt::format("{} on {}{}\n{}", model->file().file(0).path(), model->backend().name(), limit_text, table.text()));
}

}  // namespace rocmforge::apps
