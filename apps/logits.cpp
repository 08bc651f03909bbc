#include <fmt/core.h>

#include "base/json.h"
#include "base/units.h"
#include "engine_commands.h"
#include "terminal.h"

namespace rocmforge::apps {
namespace {

constexpr uint32_t kOutputs = 32;  // rows of logits per pass

// Nine significant digits tell any two floats apart.
void append_number(std::string& out, float value) {
  out += fmt::format("{:.9g}", value);
}

}  // namespace

Result<void> logits(const LogitsCommand& options) {
  const std::unique_ptr<Model> model = TRY(open_model(options.engine, {.max_outputs = kOutputs}));
  std::vector<TokenId> tokens;
  for (const int32_t id : options.tokens) tokens.push_back(TokenId(id));
  std::vector<uint32_t> positions = options.positions;
  if (positions.empty() && !tokens.empty()) positions.push_back(static_cast<uint32_t>(tokens.size() - 1));
  for (const uint32_t position : positions) {
    if (position >= tokens.size()) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("position {} is beyond the {} tokens given", position, tokens.size())};
    }
  }
  Session session = TRY(open_session(*model, options.engine, kOutputs));
  TRY(model->load(options.engine.load));
  const std::span<const float> all = TRY(session.evaluate_all(tokens));
  const size_t n_vocab = model->plan().spec().n_vocab;

  std::string out = options.json ? "{\"positions\":[" : "";
  for (size_t i = 0; i < positions.size(); i++) {
    const auto row = all.subspan(positions[i] * n_vocab, n_vocab);
    if (options.json) {
      out += fmt::format("{}{{\"position\":{},\"logits\":[", i ? "," : "", positions[i]);
      for (size_t j = 0; j < row.size(); j++) {
        if (j) out += ',';
        append_number(out, row[j]);
      }
      out += "]}";
    } else {
      for (size_t j = 0; j < row.size(); j++) {
        out += fmt::format("{} {} ", positions[i], j);
        append_number(out, row[j]);
        out += '\n';
      }
    }
  }
  if (options.json) out += "]}\n";
  return print(out);
}

Result<void> plan(const PlanCommand& options) {
  const std::unique_ptr<Model> model = TRY(open_model(options.engine, {.in_token_loop = true}));
  const GeneratorOptions alone{.n_context = options.engine.n_context, .kv_type = options.engine.kv_type};
  const MemoryBill bill = TRY(Generator::memory_bill(model->plan(), alone));
  const uint32_t n_context = options.engine.n_context != 0 ? options.engine.n_context : model->plan().n_context();
  const PlanView view = options.fused ? PlanView::fused : PlanView::reference;
  const std::string& family = model->plan().spec().architecture;
  const std::string backend(model->backend().name());
  if (options.json) {
    JsonWriter w;
    w.begin_object().key("architecture").value(family).key("backend").value(backend).key("stages");
    write_json(w, model->plan(), view);
    w.key("memory").begin_object().key("weight_bytes").value(bill.weight_bytes).key("kv_bytes").value(bill.kv_bytes);
    w.key("window_bytes").value(bill.window_bytes).key("state_bytes").value(bill.state_bytes);
    w.key("workspace_bytes").value(bill.workspace_bytes).key("staging_bytes").value(bill.staging_bytes);
    w.key("held_bytes").value(bill.held_bytes).end_object().end_object();
    return print(w.take() + "\n");
  }
  std::string out = fmt::format("{} on {}\n", family, backend);
  out += to_text(model->plan(), view);
  if (options.fused && options.engine.fuse && model->backend().fusions() == Fusions()) {
    out +=
        "\nThis device is given these steps as they are and joins some of them before it launches them: by the rows "
        "of a pass and the types of weights (docs/gpu.md).\n";
  }
  out +=
      fmt::format("\nmemory: weights {}, keys and values {} ({} tokens{}){}, workspace {}, staging {}{}; together {}\n",
                  format_bytes(bill.weight_bytes), format_bytes(bill.kv_bytes), n_context,
                  bill.window_bytes > 0 ? fmt::format("; windowed layers {}", format_bytes(bill.window_bytes)) : "",
                  bill.state_bytes > 0 ? fmt::format(", states {}", format_bytes(bill.state_bytes)) : "",
                  format_bytes(bill.workspace_bytes), format_bytes(bill.staging_bytes),
                  bill.held_bytes > 0 ? fmt::format(", the program {}", format_bytes(bill.held_bytes)) : "",
                  format_bytes(bill.total()));
  if (const auto streamed = model->plan().streamed_stages(); !streamed.empty()) {
    out += fmt::format("{} layers stay, {} are streamed: every pass reads {}\n",
                       model->plan().spec().n_layers - streamed.size(), streamed.size(),
                       format_bytes(model->plan().weights().streamed_bytes()));
  }
  return print(out);
}

}  // namespace rocmforge::apps
