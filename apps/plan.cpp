#include <fmt/core.h>

#include "base/json.h"
#include "base/units.h"
#include "engine_commands.h"
#include "gpu/device_class.h"
#include "model_path.h"
#include "pass_listing.h"
#include "terminal.h"

namespace rocmforge::apps {
namespace {

using gpu::DeviceClass;
using gpu::PassViewer;

struct Passes {
  std::unique_ptr<PassViewer> viewer;
  std::vector<gpu::PassView> views;
};

Result<Passes> view_passes(const PlanCommand& options, const std::string& name, const gpu::Target& target) {
  const EngineFlags& flags = options.engine;
  gguf::GgufFile file = TRY(gguf::GgufFile::open(TRY(find_model(flags.model))));
  TRY(file.override_metadata(flags.overrides));
  Passes out;
  out.viewer = TRY(PassViewer::open(name, target, std::make_shared<const gguf::GgufFile>(std::move(file)),
                                    {.n_context = flags.n_context, .kv_type = flags.kv_type, .fuse = flags.fuse}));
  for (const uint32_t n_rows : options.rows) out.views.push_back(TRY(out.viewer->view(n_rows)));
  return out;
}

// What is shown: a plan on the device that was opened, or on none, with the passes of a GPU.
struct Shown {
  const ExecutionPlan& plan;
  std::string on;
  const DeviceClass* device_class = nullptr;
  const Passes* passes = nullptr;
  MemoryBill bill = {};
  uint32_t n_context = 0;
};

// That of the class or the device, as far as ROCMFORGE_GPU leaves it.
gpu::Target target_of(const Shown& shown) {
  return *gpu::target_of(shown.passes->viewer->plan().backend());
}

void write_device(JsonWriter& w, const Shown& shown) {
  if (shown.device_class != nullptr) {
    const DeviceClass& of = *shown.device_class;
    w.key("device_class").begin_object().key("name").value(of.name).key("card").value(of.card);
    w.key("multiprocessors").value(of.n_units).key("shared_bytes").value(of.shared_bytes).end_object();
  }
  const gpu::Target target = target_of(shown);
  w.key("target").begin_object().key("wave").value(target.wave).key("hopper").value(target.has_hopper != 0);
  w.key("mma").value(target.has_mma != 0).key("matrix_unit").value(target.has_matrix_unit != 0).end_object();
  w.key("passes");
  write_json(w, shown.passes->views);
}

std::string json_text(const Shown& shown, PlanView view) {
  const MemoryBill& bill = shown.bill;
  JsonWriter w;
  w.begin_object().key("architecture").value(shown.plan.spec().architecture).key("backend").value(shown.on);
  w.key("stages");
  write_json(w, shown.plan, view);
  if (shown.passes != nullptr) write_device(w, shown);
  w.key("memory").begin_object().key("weight_bytes").value(bill.weight_bytes).key("kv_bytes").value(bill.kv_bytes);
  w.key("window_bytes").value(bill.window_bytes).key("state_bytes").value(bill.state_bytes);
  w.key("workspace_bytes").value(bill.workspace_bytes).key("staging_bytes").value(bill.staging_bytes);
  w.key("held_bytes").value(bill.held_bytes).end_object().end_object();
  return w.take() + "\n";
}

std::string memory_text(const Shown& shown) {
  const MemoryBill& bill = shown.bill;
  std::string out = fmt::format(
      "\nmemory: weights {}, keys and values {} ({} tokens{}){},\n        workspace {}, staging {}{}; together {}\n",
      format_bytes(bill.weight_bytes), format_bytes(bill.kv_bytes), shown.n_context,
      bill.window_bytes > 0 ? fmt::format("; windowed layers {}", format_bytes(bill.window_bytes)) : "",
      bill.state_bytes > 0 ? fmt::format(", states {}", format_bytes(bill.state_bytes)) : "",
      format_bytes(bill.workspace_bytes), format_bytes(bill.staging_bytes),
      bill.held_bytes > 0 ? fmt::format(", the program {}", format_bytes(bill.held_bytes)) : "",
      format_bytes(bill.total()));
  if (const auto streamed = shown.plan.streamed_stages(); !streamed.empty()) {
    out += fmt::format("{} layers stay, {} are streamed: every pass reads {}\n",
                       shown.plan.spec().n_layers - streamed.size(), streamed.size(),
                       format_bytes(shown.plan.weights().streamed_bytes()));
  }
  return out;
}

std::string class_text(const Shown& shown) {
  const DeviceClass& of = *shown.device_class;
  const gpu::Target target = target_of(shown);
  const bool is_less = target.has_hopper != of.target.has_hopper || target.has_mma != of.target.has_mma;
  return fmt::format("class {}: {}waves of {}, {} of shared memory a block{}\n", of.name,
                     of.n_units > 0 ? fmt::format("{} multiprocessors, ", of.n_units) : "", of.target.wave,
                     format_bytes(of.shared_bytes), is_less ? "; ROCMFORGE_GPU=portable" : "");
}

std::string plain_text(const Shown& shown, PlanView view) {
  std::string out = fmt::format("{} on {}\n", shown.plan.spec().architecture, shown.on);
  if (shown.device_class != nullptr) out += class_text(shown);
  if (shown.passes != nullptr) {
    out += "Passes with all weights resident; kernels are chosen as at run time, and nothing is run.\n";
    out += to_text(shown.plan, shown.passes->views);
  } else {
    out += to_text(shown.plan, view);
  }
  return out + memory_text(shown);
}

Result<void> show(Shown shown, const PlanCommand& options) {
  const EngineFlags& flags = options.engine;
  shown.bill = TRY(Generator::memory_bill(shown.plan, {.n_context = flags.n_context, .kv_type = flags.kv_type}));
  shown.n_context = flags.n_context != 0 ? flags.n_context : shown.plan.n_context();
  const PlanView view = options.fused ? PlanView::fused : PlanView::reference;
  return print(options.json ? json_text(shown, view) : plain_text(shown, view));
}

}  // namespace

Result<void> plan(const PlanCommand& options) {
  if (const DeviceClass* of = gpu::find_device_class(options.device_class)) {
    const Passes passes = TRY(view_passes(options, of->name, of->target));
    return show({passes.viewer->plan(), fmt::format("{}, not opened", of->card), of, &passes}, options);
  }
  const std::unique_ptr<Model> model = TRY(open_model(options.engine, {.in_token_loop = true}));
  const Shown shown{model->plan(), std::string(model->backend().name())};
  const auto target = gpu::target_of(model->backend());
  if (!options.fused || !target) return show(shown, options);
  const Passes passes = TRY(view_passes(options, shown.on, *target));
  return show({shown.plan, shown.on, nullptr, &passes}, options);
}

}  // namespace rocmforge::apps
