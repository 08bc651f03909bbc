#pragma once
// One walk over a planned pass (gpu/pass_steps.h), which puts each step's kernels on the backend's stream. A step's
// launches depend on that step alone.

#include "base/check.h"
#include "gpu/attend_choice.h"
#include "gpu/backend.h"
#include "gpu/kernels/attend_tiles.h"
#include "gpu/kernels/batch_view.h"
#include "gpu/kernels/matmul_panels.h"
#include "gpu/kernels/matvec.h"
#include "gpu/kernels/quantize.h"
#include "gpu/kernels/recurrent.h"
#include "gpu/kernels/rope.h"
#include "gpu/kernels/stream_fragments.h"
#include "gpu/kernels/stream_hopper.h"
#include "gpu/kernels/stream_rows_hopper.h"
#include "gpu/pass_plan.h"

namespace rocmforge {

class GpuBackend::Runner {
 public:
  // Known limits of a batch's sequences. The row counts are unknown (0) for a pass that is recorded for other batches
  // too.
  struct Extent {
    uint32_t longest;      // upper bound of a sequence's positions
    uint32_t n_sequences;  // upper bound
    uint32_t fewest_rows = 0, most_rows = 0;
  };
  Runner(GpuBackend& backend, const gpu::BatchViews& batch, const Extent& extent, const WeightStore& weights)
      : self_(backend),
        batch_(batch.all),
        window_batch_(batch.windowed),
        extent_(extent),
        weights_(weights),
        facts_(facts_of(backend, weights)) {}

  // A backend's facts of the pass it runs now.
  static gpu::PassFacts facts_of(const GpuBackend& backend, const WeightStore& weights);

  Result<void> run(std::span<const gpu::PassStep> steps) const;

  Result<void> operator()(const gpu::NormStep& step) const;
  Result<void> operator()(const gpu::ActivateStep& step) const;
  Result<void> operator()(const gpu::ProductStep& step) const;
  Result<void> operator()(const gpu::StreamStep& step) const;
  Result<void> operator()(const gpu::RopeStoreStep& step) const;
  Result<void> operator()(const gpu::ConvolveStep& step) const;
  Result<void> operator()(const gpu::ExpertMatmulStep& step) const;
  Result<void> operator()(const gpu::ExpertCombineStep& step) const;
  Result<void> operator()(const gpu::SingleStep& step) const { return std::visit(*this, *step.step); }

  Result<void> operator()(const Embed& step) const;
  Result<void> operator()(const Rope& step) const;
  Result<void> operator()(const StoreKv& step) const;
  Result<void> operator()(const Attend& step) const;
  Result<void> operator()(const Add& step) const;
  Result<void> operator()(const Route& step) const;
  Result<void> operator()(const TakeRows& step) const;
  Result<void> operator()(const Temper& step) const;
  Result<void> operator()(const Gate& step) const;
  Result<void> operator()(const Scale& step) const;
  Result<void> operator()(const TakeColumns& step) const;
  Result<void> operator()(const WeighExperts& step) const;
  Result<void> operator()(const Convolve& step) const;
  Result<void> operator()(const Scan& step) const;
  Result<void> operator()(const DeltaRule& step) const;
  // runner_texts.cpp
  Result<void> operator()(const AttendBothWays& step) const;
  Result<void> operator()(const Pool& step) const;
  Result<void> operator()(const AddVector& step) const;
  Result<void> operator()(const MixStreams& step) const;
  Result<void> operator()(const MatchLength& step) const;
  Result<void> operator()(const CutRow& step) const;
  // Those that plan_pass() never leaves single, and those that GpuBackend::fusions() does not ask for.
  template <class S>
  Result<void> operator()(const S&) const {
    RF_UNREACHABLE("a step that is no single one");
  }

 private:
  // A weight on the device.
  struct Weight {
    WeightShape shape;
    gpu::Planes planes;
  };
  // Rows of activations.
  struct Input {
    const float* x;
    uint32_t n_rows;
    uint32_t width;
  };

  const SlotMemory& slot(SlotId id) const { return self_.slots_[id.value]; }
  uint32_t n_rows(SlotId id) const { return facts_.rows_of(id); }
  Weight weight(WeightId id) const;
  // A norm's weight, a bias or RoPE factors as f32. Other types are decoded into workspace `which`, 0 or 1.
  Result<const float*> vector_of(std::optional<WeightId> id, uint32_t which) const;
  // The first n elements. REQUIRES: they are of one row, or of a type without blocks
  Result<const float*> floats_of(const Weight& w, uint64_t n, uint32_t which) const;

  template <class Args>
  Result<void> launch(gpu::GpuKernel* kernel, const gpu::LaunchShape& shape, const Args& args) const {
    if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return {};
    if (self_.choices_.is_telling()) self_.choices_.chosen(self_.kernels_.name(kernel));
    return self_.stream_.launch(kernel, shape, args);
  }
  template <class Args>
  Result<void> launch(gpu::FixedKernel kernel, gpu::Grid grid, uint32_t n_threads, const Args& args) const {
    return launch(TRY(self_.kernels_.get(kernel)), {grid, n_threads}, args);
  }
  template <class Args>
  Result<void> launch(gpu::FormatKernel kernel, DType dtype, gpu::Grid grid, uint32_t n_threads,
                      const Args& args) const {
    return launch(TRY(self_.kernels_.get(kernel, dtype)), {grid, n_threads}, args);
  }

  // runner_choices.cpp: tells which kernels the launches to come are, when somebody asked for that.
  void tell(const Matmul& step) const;
  void tell(const Attend& step) const;
  void tell(const ExpertStack& stack, SlotId routing) const;
  void tell_nothing() const { self_.choices_.begin({}); }

  // runner_attention.cpp
  std::byte* cache_of(uint32_t layer) const;
  bool is_windowed(uint32_t layer) const {
    return !self_.layout_.is_windowed.empty() && self_.layout_.is_windowed[layer];
  }
  const gpu::BatchView& batch_of(uint32_t layer) const { return is_windowed(layer) ? window_batch_ : batch_; }
  Result<gpu::RopeArgs> rope_args(const Rope& step) const;
  gpu::StoreKvArgs store_args(const StoreKv& step) const;
  float* row_rotations(uint32_t which) const;
  uint32_t* cache_rows(uint32_t layer) const;
  Result<void> make_rotations(const gpu::StreamStep& step) const;
  gpu::RowsTurn turns_of_rows(const gpu::StreamStep& step) const;
  Result<void> attend_together(const gpu::AttendChoice& choice, const gpu::AttendTilesArgs& args) const;
  Result<void> attend_by_rows(const gpu::AttendChoice& choice, gpu::AttendArgs args, uint32_t n) const;

  // runner_stream.cpp: a norm, the product that takes it, and the sum or activation that takes the product, as one
  // launch (or one for each weight format).
  struct StreamPart {  // weights of one format
    DType dtype;
    uint32_t n_strips;  // or pairs of strips
    gpu::StreamArgs args;
    gpu::RowsTurn turn = {};  // for more than one row
    gpu::RowsNext next = {};
  };
  Result<StreamPart> stream_part(const gpu::StreamStep& step, std::span<const Matmul::Part> parts) const;
  Result<void> turn(StreamPart& part, size_t first, const gpu::StreamStep& step) const;
  Result<void> launch_streams(std::span<StreamPart> formats) const;

  // runner_many.cpp: the same for 2 to 32 rows.
  Result<void> launch_many(std::span<const StreamPart> formats) const;
  Result<void> launch_many(std::span<StreamPart> parts, gpu::ManyKind kind) const;

  // runner_rows.cpp: the same for 17 to 128 rows.
  Result<void> launch_rows(std::span<const StreamPart> formats, const gpu::StreamStep& step) const;
  gpu::RowsArgs rows_args(const StreamPart& part) const;
  Result<gpu::RowsNext> write_inputs_of(const gpu::RowsStep& step) const;
  gpu::ManyOrders orders_of(const Matmul& product, uint8_t* to) const;
  uint8_t* rows_inputs(uint32_t which) const;  // 0 or 1
  float* row_input_scales(uint32_t which) const;
  float* row_squares() const;
  void divide(gpu::RowsPairArgs& both, uint32_t n_pieces) const;

  // runner_rare.cpp: what few families compute.
  Result<void> activate_rarely(const Activate& step) const;
  // A product's numbers beside its weights, and its clamp.
  Result<void> scale_parts(const Matmul& step) const;

  // runner_fragments.cpp: products of few rows, except on Hopper.
  Result<void> multiply_by_fragments(const Matmul& step) const;
  Result<void> launch_fragments(gpu::StreamFragmentsArgs& args, std::span<const Matmul::Part> parts) const;

  // runner_recurrent.cpp
  gpu::StatesView states_of(uint32_t layer, uint32_t state_at) const;
  const float* numbers_of(WeightId id, uint64_t n) const;  // of a vector of n elements in f32
  Result<void> convolve(const Convolve& step, const float* gate_in, const float* gate_out) const;

  // runner_panels.cpp: products of at least kPanelMinRows rows.
  Result<void> multiply_by_panels(const Matmul& step) const;
  Result<gpu::PanelsPart> decode_panels(const Matmul::Part& part, uint32_t first_out, uint32_t n, uint32_t set) const;
  Result<void> launch_panels(const gpu::MatmulPanelsArgs& args, uint32_t n_sets) const;

  int8_t* quants() const;
  gpu::ActivationScale* quant_scales() const;
  float* row_scales() const;
  Result<void> quantize(const Input& input) const;
  // The number of parts from `first` on that one launch of this route can compute.
  size_t n_together(const Matmul& step, size_t first, gpu::ProductRoute route) const;
  // The tiles of an input held in the workspace (kernels/tiles.h).
  struct Tiles {
    DType dtype;
    uint32_t rows;
    friend bool operator==(const Tiles&, const Tiles&) = default;
  };
  Result<void> multiply_on_hopper(std::span<const gpu::MatvecPart> parts, DType dtype, const Input& input,
                                  std::optional<Tiles>& tiles) const;
  Result<void> multiply(gpu::ProductRoute route, std::span<const gpu::MatvecPart> parts, DType dtype,
                        const Input& input) const;
  Result<void> scale_and_cap(const Matmul& step) const;

  // runner_experts.cpp
  struct ExpertWeights {  // the same matrix of all experts, as kernels address them
    WeightShape shape;    // of one
    gpu::Planes planes;   // of the first one
    gpu::ExpertPlace place = {};
    const float* bias = nullptr;
  };
  struct ExpertProduct {
    ExpertWeights w;
    float* out;
  };
  // Inputs are rows of the batch, each for pairs_per_input pairs.
  struct ExpertInput {
    Input rows;
    uint32_t pairs_per_input;
  };
  Result<ExpertWeights> find_experts(const ExpertStack& stack, std::optional<WeightId> bias) const;
  Result<void> multiply_pairs(std::span<const ExpertProduct> products, const ExpertInput& input, SlotId routing,
                              uint32_t n_used, bool sum) const;
  Result<void> multiply_groups(std::span<const ExpertProduct> products, const ExpertInput& input, uint32_t n_pairs,
                               uint32_t n_experts, uint32_t tile_rows) const;
  Result<void> multiply_groups_by_fragments(std::span<const ExpertProduct> products, const ExpertInput& input,
                                            uint32_t max_tiles, bool is_streamed) const;
  Result<void> multiply_groups_on_hopper(std::span<const ExpertProduct> products, const ExpertInput& input,
                                         uint32_t n_pairs, uint32_t n_experts, uint32_t tile_rows) const;

  GpuBackend& self_;
  gpu::BatchView batch_, window_batch_;  // the second for layers with pages of their own
  Extent extent_;
  const WeightStore& weights_;
  const gpu::PassFacts facts_;
};

}  // namespace rocmforge
