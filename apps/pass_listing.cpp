#include "pass_listing.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "base/json.h"
#include "plan/step_name.h"

namespace rocmforge::apps {
namespace {

using gpu::PassView;
using gpu::StepView;

constexpr size_t kColumns = 100, kMaxWhat = 46;

// "Norm + Matmul q, k, v + Rope + StoreKv"
std::string what_of(const ExecutionPlan& plan, const StepView& view) {
  std::string out;
  const auto add_slots = [&](const auto& parts) {
    for (size_t i = 0; i < parts.size(); i++) {
      out += fmt::format("{}{}", i > 0 ? ", " : " ", plan.slots()[parts[i].out.value].name);
    }
  };
  for (const Step* step : view.steps) {
    out += fmt::format("{}{}", out.empty() ? "" : " + ", step_name(*step));
    if (const auto* product = std::get_if<Matmul>(step)) add_slots(product->parts);
    if (const auto* experts = std::get_if<ExpertMatmul>(step)) add_slots(experts->parts);
  }
  return out + (view.writes_next_inputs ? " + next inputs" : "");
}

// Launches that follow each other by one kernel are counted: "4 x attend_tiles_128".
std::vector<std::string> counted(const std::vector<std::string>& kernels) {
  std::vector<std::string> out;
  for (size_t i = 0, n = 0; i < kernels.size(); i += n) {
    n = 1;
    while (i + n < kernels.size() && kernels[i + n] == kernels[i]) n++;
    out.push_back(n > 1 ? fmt::format("{} x {}", n, kernels[i]) : kernels[i]);
  }
  return out;
}

// Words separated by commas, in lines that begin in this column. The first line continues one of `at` columns.
std::string wrapped(const std::vector<std::string>& words, size_t at, size_t column) {
  std::string out;
  for (size_t i = 0; i < words.size(); i++) {
    const std::string word = words[i] + (i + 1 < words.size() ? "," : "");
    if (i > 0 && at + 1 + word.size() > kColumns) {
      out += "\n" + std::string(column, ' ');
      at = column;
    } else if (i > 0) {
      out += " ";
      at++;
    }
    out += word;
    at += word.size();
  }
  return out;
}

std::string step_line(const std::string& what, const std::vector<std::string>& kernels, size_t width) {
  const size_t column = 4 + width + 2;
  std::string out = "    " + what;
  if (what.size() > width) {
    out += "\n" + std::string(column, ' ');
  } else {
    out += std::string(column - out.size(), ' ');
  }
  return out + wrapped(counted(kernels), column, column) + "\n";
}

// "layers 0-3, 5", or the name of a stage that is alone.
std::string names_of(const ExecutionPlan& plan, const std::vector<size_t>& stages) {
  if (stages.size() == 1) return plan.stages()[stages.front()].name;
  std::vector<std::string> ranges;
  for (size_t i = 0, n = 0; i < stages.size(); i += n) {
    n = 1;
    while (i + n < stages.size() && stages[i + n] == stages[i] + n) n++;
    const size_t layer = stages[i] - 1;  // stage 0 is the embedding
    ranges.push_back(n > 1 ? fmt::format("{}-{}", layer, layer + n - 1) : fmt::format("{}", layer));
  }
  return "layers " + wrapped(ranges, 9, 9);
}

std::string steps_text(const ExecutionPlan& plan, const PassView& pass, size_t width) {
  std::vector<std::string> texts(plan.stages().size());
  for (const StepView& view : pass.steps) texts[view.stage] += step_line(what_of(plan, view), view.kernels, width);
  std::string out;
  std::vector<bool> is_told(texts.size());
  for (size_t i = 0; i < texts.size(); i++) {
    if (is_told[i] || texts[i].empty()) continue;
    std::vector<size_t> alike;
    for (size_t k = i; k < texts.size(); k++) {
      if (texts[k] != texts[i]) continue;
      alike.push_back(k);
      is_told[k] = true;
    }
    out += "  " + names_of(plan, alike) + "\n" + texts[i];
  }
  return out;
}

std::string heading(const ExecutionPlan& plan, const PassView& pass) {
  if (pass.n_rows == 1) return "1 row";
  const char* const of = !plan.has_logits() ? "text" : pass.n_sequences < pass.n_rows ? "prompt" : "sequence";
  return fmt::format("{} rows of {} {}{}", pass.n_rows, pass.n_sequences, of, pass.n_sequences > 1 ? "s" : "");
}

}  // namespace

std::string to_text(const ExecutionPlan& plan, std::span<const PassView> passes) {
  size_t width = 0;
  for (const PassView& pass : passes) {
    for (const StepView& view : pass.steps) {
      const size_t n = what_of(plan, view).size();
      if (n <= kMaxWhat) width = std::max(width, n);
    }
  }
  std::vector<std::string> texts;
  for (const PassView& pass : passes) texts.push_back(steps_text(plan, pass, width));
  std::string out;
  for (size_t i = 0; i < passes.size(); i++) {
    if (std::find(texts.begin(), texts.begin() + static_cast<ptrdiff_t>(i), texts[i]) !=
        texts.begin() + static_cast<ptrdiff_t>(i))
      continue;
    out += "\n";
    for (size_t k = i; k < passes.size(); k++) {
      if (texts[k] == texts[i]) out += (k > i ? "; " : "") + heading(plan, passes[k]);
    }
    out += "\n" + texts[i];
  }
  return out;
}

void write_json(JsonWriter& w, std::span<const PassView> passes) {
  w.begin_array();
  for (const PassView& pass : passes) {
    w.begin_object().key("rows").value(pass.n_rows).key("sequences").value(pass.n_sequences);
    w.key("steps").begin_array();
    for (const StepView& view : pass.steps) {
      w.begin_object().key("stage").value(uint64_t{view.stage}).key("first").value(uint64_t{view.first});
      w.key("n").value(uint64_t{view.n}).key("kind").value(view.kind);
      w.key("writes_next_inputs").value(view.writes_next_inputs).key("kernels").begin_array();
      for (const std::string& kernel : view.kernels) w.value(kernel);
      w.end_array().end_object();
    }
    w.end_array().end_object();
  }
  w.end_array();
}

}  // namespace rocmforge::apps
