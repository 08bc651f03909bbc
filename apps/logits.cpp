#include <fmt/core.h>

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

}  // namespace rocmforge::apps
