#pragma once
// One walk over the steps of a pass, which puts each step's kernels on the backend's stream.

#include "base/check.h"
#include "gpu/backend.h"
#include "gpu/kernels/batch_view.h"
#include "gpu/kernels/matmul_panels.h"
#include "gpu/kernels/matvec.h"
#include "gpu/kernels/quantize.h"
#include "gpu/kernels/rope.h"
#include "gpu/kernels/stream_hopper.h"
#include "gpu/kernels/stream_rows_hopper.h"

namespace rocmforge {

class GpuBackend::Runner {
 public:
  // Known limits of a batch's sequences. The row counts are unknown (0) for a pass that is recorded for other batches
  // too.
  struct Extent {
    uint32_t longest;  // upper bound of a sequence's positions
    uint32_t fewest_rows = 0, most_rows = 0;
  };
  Runner(GpuBackend& backend, const gpu::BatchView& batch, const Extent& extent, const WeightStore& weights)
      : self_(backend), batch_(batch), extent_(extent), weights_(weights) {}

  // unsupported: a step that the kernels do not compute. `following`: the steps that are certain to come next.
  Result<void> run(std::span<const Step> steps, std::span<const Step> following = {}) const;
  // Runs n stages from `first` on.
  Result<void> run(std::span<const std::span<const Step>> stages, size_t first, size_t n) const;
  // Call after the last steps: launches a deferred step.
  Result<void> finish() const;

  Result<void> operator()(const Embed& step) const;
  Result<void> operator()(const Norm& step) const;
  Result<void> operator()(const Matmul& step) const;
  Result<void> operator()(const Rope& step) const;
  Result<void> operator()(const StoreKv& step) const;
  Result<void> operator()(const Attend& step) const;
  Result<void> operator()(const Activate& step) const;
  Result<void> operator()(const Add& step) const;
  Result<void> operator()(const Route& step) const;
  Result<void> operator()(const ExpertMatmul& step) const;
  Result<void> operator()(const ExpertCombine& step) const;
  Result<void> operator()(const TakeRows& step) const;
  Result<void> operator()(const Temper& step) const;
  Result<void> operator()(const Gate& step) const;
  Result<void> operator()(const Scale& step) const;
  Result<void> operator()(const TakeColumns& step) const;
  Result<void> operator()(const WeighExperts& step) const;
  // GpuBackend::fusions() asks for none.
  template <class S>
    requires kIsFused<S>
  Result<void> operator()(const S&) const {
    RF_UNREACHABLE("a fused step");
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
  uint32_t n_rows(SlotId id) const { return slot(id).rows == SlotRows::batch ? self_.n_rows_ : self_.n_outputs_; }
  Weight weight(WeightId id) const;
  // A norm's weight, a bias or RoPE factors as f32. Other types are decoded into workspace `which`, 0 or 1.
  Result<const float*> vector_of(std::optional<WeightId> id, uint32_t which) const;

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
  Result<gpu::RopeArgs> rope_args(const Rope& step) const;
  gpu::StoreKvArgs store_args(const StoreKv& step) const;
  Result<void> rope_and_store(const Rope& rope, const StoreKv& store) const;
  gpu::RowsTurn rows_turn(const Rope& rope) const;
  Result<gpu::RowsTurn> turns_of_rows(const Rope& rope, const StoreKv& store) const;
  Result<void> attend_by_rows(gpu::AttendArgs args, uint32_t n) const;

  // runner_stream.cpp. Fuses steps on Hopper: a norm, the product that takes it, and the sum or activation that takes
  // the product become one launch (or one per weight format). Returns the number of fused steps; 0: none.
  Result<size_t> stream(std::span<const Step> steps) const;
  bool can_stream(const Matmul& step) const;
  bool can_norm(const Norm& norm) const;  // as the norm before a streamed product
  struct StreamPart {                     // weights of one format
    DType dtype;
    uint32_t n_strips;  // or pairs of strips
    gpu::StreamArgs args;
    gpu::RowsTurn turn = {};  // for more than one row
    gpu::RowsNext next = {};
  };
  Result<StreamPart> stream_part(const Norm* norm, const Matmul& product, std::span<const Matmul::Part> parts,
                                 const Add* sum, const Activate* activate) const;
  bool can_turn(const Matmul& product, const Rope& rope, const StoreKv& store) const;
  Result<void> turn(StreamPart& part, size_t first, const Rope& rope, const StoreKv& store) const;
  bool can_turn_rows(const Matmul& product, const Rope& rope) const;
  Result<void> launch_streams(std::span<StreamPart> formats) const;

  // runner_many.cpp: the same for 2 to 32 rows.
  bool can_stream_many(const Matmul& step) const;
  Result<void> launch_many(std::span<const StreamPart> formats) const;
  Result<void> launch_many(std::span<StreamPart> parts, gpu::ManyKind kind) const;

  // runner_rows.cpp: the same for 17 to 128 rows.
  bool can_stream_rows(const Matmul& step) const;
  Result<void> launch_rows(std::span<const StreamPart> formats, const Norm* norm, const Matmul& product) const;
  gpu::RowsArgs rows_args(const StreamPart& part) const;
  // The norm and the product that follow a residual sum; the sum's epilogue can write that product's inputs.
  struct Taker {
    const Norm* norm;
    const Matmul* product;
  };
  std::optional<Taker> taker_of(const Matmul& product, const Add& sum, std::span<const Step> after) const;
  Result<gpu::RowsNext> leave_inputs(const Taker& taker) const;
  uint64_t all_input_bytes(const Matmul& step) const;
  gpu::ManyOrders orders_of(const Matmul& product, uint8_t* to) const;
  uint8_t* rows_inputs(uint32_t which) const;  // 0 or 1
  float* row_lifts(uint32_t which) const;
  float* row_squares() const;
  uint64_t room_for_shares(uint32_t n_tiles) const;
  uint32_t shares_of(uint32_t n_tiles, uint32_t n_pieces) const;
  void divide(gpu::RowsPairArgs& both, uint32_t n_pieces) const;

  // runner_rare.cpp: what few families compute.
  static bool is_rare(const Activate& step);
  Result<void> activate_rarely(const Activate& step) const;
  // A product's numbers beside its weights, and its clamp.
  Result<void> scale_parts(const Matmul& step) const;
  // A slot was written: what is left of it as bytes is not it any more.
  void forget_bytes(SlotId id) const;

  // runner_panels.cpp: products of at least PanelMemory::kMinRows rows on Hopper.
  bool can_use_panels(const Matmul& step) const;
  Result<void> multiply_by_panels(const Matmul& step) const;
  Result<gpu::PanelsPart> decode_panels(const Matmul::Part& part, uint32_t first_out, uint32_t n, uint32_t set) const;
  Result<void> launch_panels(const gpu::MatmulPanelsArgs& args, uint32_t n_sets) const;

  // Whether products take this slot as 8-bit integers, so that the step that writes the slot can also quantize it.
  bool is_wanted_as_bytes(SlotId id) const;
  int8_t* quants() const;
  gpu::ActivationScale* quant_scales() const;
  float* row_scales() const;
  Result<void> quantize(const Input& input) const;
  // The number of parts from `first` on that one launch can compute.
  size_t n_together(const Matmul& step, size_t first, const Input& input) const;
  // The tiles of an input held in the workspace (kernels/tiles.h).
  struct Tiles {
    DType dtype;
    uint32_t rows;
    friend bool operator==(const Tiles&, const Tiles&) = default;
  };
  bool on_hopper(DType dtype, const Input& input) const;
  Result<void> multiply_on_hopper(std::span<const gpu::MatvecPart> parts, DType dtype, const Input& input,
                                  std::optional<Tiles>& tiles) const;
  Result<void> multiply(std::span<const gpu::MatvecPart> parts, DType dtype, const Input& input) const;
  Result<void> scale_and_cap(const Matmul& step) const;
  Result<void> find_experts(gpu::MatvecArgs& args, const ExpertStack& stack) const;
  Result<void> multiply_experts(float* out, const ExpertStack& stack, std::optional<WeightId> bias, const Input& input,
                                SlotId routing, uint32_t n_used, bool sum) const;

  GpuBackend& self_;
  gpu::BatchView batch_;
  Extent extent_;
  const WeightStore& weights_;
  // A residual sum deferred until the norm that usually follows: one kernel does both.
  mutable std::optional<Add> waiting_;
  // The steps after those of run().
  mutable std::span<const Step> following_;
  // The inputs in rows_inputs(1) that the previous product's epilogue wrote for this product.
  struct LeftInputs {
    const Matmul* product;
    gpu::ManyOrders at;
  };
  mutable std::optional<LeftInputs> left_inputs_;
  // The slot whose input scales are in row_lifts(lifts_at_).
  mutable std::optional<SlotId> lifted_;
  mutable uint32_t lifts_at_ = 0;
  // The RoPE rotations in row_turns, in order.
  struct MadeTurns {
    RopeSpec rope;
    std::optional<WeightId> factors;
    friend bool operator==(const MadeTurns&, const MadeTurns&) = default;
  };
  mutable std::vector<MadeTurns> made_turns_;
  // The slot whose quantized form is in quants(), if the step that wrote the slot also quantized it.
  mutable std::optional<SlotId> as_bytes_;
};

}  // namespace rocmforge
