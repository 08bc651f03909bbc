#include "gpu/pass_view.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "gpu/dry_device.h"

namespace rocmforge::gpu {
namespace {

const char* kind_of(const PassStep& step) {
  struct Kind {
    const char* operator()(const NormStep&) const { return "NormStep"; }
    const char* operator()(const ActivateStep&) const { return "ActivateStep"; }
    const char* operator()(const ProductStep&) const { return "ProductStep"; }
    const char* operator()(const StreamStep&) const { return "StreamStep"; }
    const char* operator()(const RopeStoreStep&) const { return "RopeStoreStep"; }
    const char* operator()(const ConvolveStep&) const { return "ConvolveStep"; }
    const char* operator()(const ExpertMatmulStep&) const { return "ExpertMatmulStep"; }
    const char* operator()(const ExpertCombineStep&) const { return "ExpertCombineStep"; }
    const char* operator()(const SingleStep&) const { return "SingleStep"; }
  };
  return std::visit(Kind(), step);
}

// Each entry of a pass with the steps of the plan that it computes, without kernels.
std::vector<StepView> views_of(const PassPlan& pass, std::span<const std::span<const Step>> stages) {
  std::vector<StepView> out(pass.steps.size());
  size_t at = 0;  // of the plan's steps
  for (size_t stage = 0; stage < stages.size(); stage++) {
    for (size_t i = 0; i < stages[stage].size(); i++, at++) {
      StepView& view = out[pass.ends[at]];
      if (view.n == 0) view = {.stage = stage, .first = i, .kind = kind_of(pass.steps[pass.ends[at]])};
      view.steps.push_back(&stages[stage][i]);
      view.n++;
    }
  }
  for (size_t i = 0; i < out.size(); i++) {
    const auto* stream = std::get_if<StreamStep>(&pass.steps[i]);
    out[i].writes_next_inputs = stream != nullptr && stream->rows.next_product != nullptr;
  }
  return out;
}

struct Sizes {
  uint32_t n_rows_of_one, n_sequences;
};
Sizes sizes_of(const ExecutionPlan& plan, uint32_t n_rows) {
  const bool are_prompts = !plan.has_logits() || n_rows > Recordings::kMaxRows;
  const uint32_t n_of_one = are_prompts ? std::min(n_rows, plan.n_context()) : 1;
  return {n_of_one, (n_rows + n_of_one - 1) / n_of_one};
}

}  // namespace

Result<std::unique_ptr<PassViewer>> PassViewer::open(const std::string& name, const Target& target,
                                                     std::shared_ptr<const gguf::GgufFile> file,
                                                     const Options& options) {
  std::unique_ptr<PassViewer> out(new PassViewer);
  const auto launched = [self = out.get()](const DryLaunch& one) { self->launched_.emplace_back(one.kernel); };
  out->backend_ = TRY(GpuBackend::open(dry_api({name, target, launched}), 0));
  out->plan_ = TRY(ExecutionPlan::from_gguf(
      *out->backend_, std::move(file),
      {.weights = {.n_loaders = 1}, .n_context = options.n_context, .pass = {}, .fuse = options.fuse}));
  const ExecutionPlan& plan = *out->plan_;
  for (const auto steps : plan.steps()) TRY(out->backend_->check_steps(steps, plan.weights()));
  const uint32_t n_pages = pages_for_tokens(std::max(plan.n_context(), kMaxRows));
  const uint32_t most_sequences = std::max(Recordings::kMaxRows, sizes_of(plan, kMaxRows).n_sequences);
  TRY(out->backend_->placement().reserve(plan.weights().arena_bytes(), 1));
  TRY(out->backend_->reserve(plan.pass_memory(kMaxRows, most_sequences, n_pages, options.kv_type, most_sequences,
                                              plan.has_logits() ? n_pages : 0)));
  return out;
}

Result<PassView> PassViewer::view(uint32_t n_rows) {
  CHECK(n_rows > 0 && n_rows <= kMaxRows);
  const Sizes sizes = sizes_of(*plan_, n_rows);
  std::vector<PageId> pages;
  pages.reserve(pages_for_tokens(sizes.n_rows_of_one));
  for (uint32_t i = 0; i < pages_for_tokens(sizes.n_rows_of_one); i++) pages.emplace_back(i);
  Batch batch;
  for (uint32_t i = 0; i < sizes.n_sequences; i++) {
    const std::vector<TokenId> tokens(std::min(sizes.n_rows_of_one, n_rows - batch.n_rows()), TokenId(0));
    batch.add(tokens, 0, plan_->has_logits() ? std::span<const PageId>(pages) : std::span<const PageId>());
    BatchSequence& sequence = batch.sequences.back();
    sequence.window_pages = sequence.pages;
    sequence.pooling = plan_->default_pooling();
    if (plan_->has_states()) sequence.state_after = StateId(i);
  }
  PassView out{n_rows, sizes.n_sequences, {}};
  launched_.clear();
  TRY(backend_->run_each(plan_->steps(), batch, plan_->weights(), [&](const PassPlan& pass, size_t entry) {
    if (entry == 0) out.steps = views_of(pass, plan_->steps());
    out.steps[entry].kernels = std::exchange(launched_, {});
  }));
  return out;
}

std::optional<Target> target_of(const Backend& backend) {
  const auto* gpu = dynamic_cast<const GpuBackend*>(&backend);
  if (gpu == nullptr) return std::nullopt;
  const Device& device = gpu->device();
  return Target{device.wave(), device.has_hopper(), device.has_mma(), device.has_matrix_unit(), device.tile_order()};
}

}  // namespace rocmforge::gpu
