#pragma once
// A backend runs steps: the second of the two virtual interfaces (cpu/backend.h, gpu/backend.h).
//
// Threads: one pass at a time.

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "plan/batch.h"
#include "plan/candidates.h"
#include "plan/fuse.h"
#include "plan/step.h"
#include "weights/placement.h"

namespace rocmforge {

enum class KvType : uint8_t { f16, f32 };

// The keys and values that a layer stores per position.
struct KvLayer {
  uint32_t n_heads = 0;                   // 0: the layer stores none
  uint32_t key_size = 0, value_size = 0;  // of a head

  uint32_t key_width() const { return n_heads * key_size; }
  uint32_t value_width() const { return n_heads * value_size; }
  friend bool operator==(const KvLayer&, const KvLayer&) = default;
};

// The memory of a pass except weights, known before a byte is allocated.
// Of the products with experts in a pass. No experts: n_used == 0.
struct ExpertsMemory {
  uint32_t n_experts = 0, n_used = 0;  // the most of any layer
  uint32_t widest_input = 0,
           widest_combine = 0;  // elements of a row that goes into a product, that ExpertCombine gives
};

struct PassMemory {
  std::span<const Slot> slots;
  uint32_t max_rows = 0;  // per pass
  uint32_t max_outputs = 0;
  uint32_t n_layers = 0;
  uint32_t n_pages = 0;
  uint32_t kv_width = 0;  // elements of one position's keys in one layer; values have as many
  KvType kv_type = KvType::f16;
  uint32_t kv_head_size = 0;                // elements of one head; 0: unknown, so that pages are not laid out by heads
  std::span<const KvLayer> kv_layers = {};  // if layers differ; kv_width is then that of the widest layer

  // Windowed layers may have pages of their own, fewer than the others: a sequence gives them back when its window has
  // passed them. 0: they are in the pages of the other layers.
  uint32_t n_window_pages = 0;
  std::span<const uint8_t> windowed = {};  // by layer: whether it is windowed; empty: none is

  uint32_t n_states = 0;                        // state slots of recurrent layers
  std::span<const uint32_t> state_widths = {};  // f32 elements of each layer's state; empty: no recurrent layers

  ExpertsMemory experts = {};

  // f32 elements of one state slot, which holds the states of all layers, concatenated.
  uint64_t state_elements() const {
    uint64_t n = 0;
    for (const uint32_t width : state_widths) n += width;
    return n;
  }

  bool has_window_pages() const { return n_window_pages > 0; }
  bool in_window_pages(uint32_t layer) const { return has_window_pages() && !windowed.empty() && windowed[layer] != 0; }
  uint32_t pages_of(uint32_t layer) const { return in_window_pages(layer) ? n_window_pages : n_pages; }

  KvLayer kv_layer(uint32_t i) const {
    if (!kv_layers.empty()) return kv_layers[i];
    const uint32_t head = kv_head_size != 0 ? kv_head_size : kv_width;
    return {head != 0 ? kv_width / head : 0, head, head};
  }
};

// Some steps of one stage of a pass, beside those before and behind them.
struct PassPart {
  std::span<const std::span<const Step>> stages;  // of the whole pass
  size_t stage = 0;
  size_t first = 0, n = 0;  // steps of the stage
  std::span<const Step> steps() const { return stages[stage].subspan(first, n); }
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;  // "cpu (avx2, 2 threads)"
  virtual Placement& placement() = 0;

  // The fused steps that this backend runs.
  virtual Fusions fusions() const { return {}; }
  // Whether a backend without fused steps may fuse steps by itself while it runs them (default: yes). Call it before
  // the first pass.
  virtual void join_steps(bool) {}

  // unsupported, naming what is missing, if this backend cannot run one of the steps.
  virtual Result<void> check_steps(std::span<const Step>, const WeightStore&) const { return {}; }
  // Tokens of a long prompt per pass. A larger number would cost memory and time to the first token, and hardly raise
  // the rate.
  virtual uint32_t rows_of_a_pass() const { return 256; }
  // Whether run() and run_settled() return before the device is done, so that the host can do other work until it reads
  // the results.
  virtual bool runs_ahead() const { return false; }
  // Bytes of pinned host memory that the backend holds now.
  virtual uint64_t pinned_bytes() const { return 0; }

  // How often the device did not record a pass that it should have replayed later. Any thread may ask.
  virtual uint64_t n_refused_recordings() const { return 0; }

  // Bytes that reserve() would allocate.
  virtual uint64_t pass_bytes(const PassMemory& memory) const = 0;
  // Allocates slots, KV pages and state slots. A later call with other sizes replaces them.
  virtual Result<void> reserve(const PassMemory& memory) = 0;
  virtual void release() = 0;

  // Runs the steps in order. `weights` gives addresses and shapes of the steps' weights.
  // REQUIRES: reserved for at least this batch; the steps' weights are resident
  virtual Result<void> run(std::span<const Step> steps, const Batch& batch, const WeightStore& weights) = 0;

  // The same for the steps of a part. The parts of a pass are run in order. A backend may prepare what a later part of
  // the pass reads; then it also reads the weights of the norm that the next stage begins with.
  // REQUIRES: those are resident, too
  virtual Result<void> run_part(const PassPart& part, const Batch& batch, const WeightStore& weights) {
    return run(part.steps(), batch, weights);
  }

  // Runs a whole pass, the steps of all stages, when all weights are resident (WeightStore::is_settled). Every such
  // pass of a plan passes the same lists, so a backend may record the work once and replay it.
  virtual Result<void> run_settled(std::span<const std::span<const Step>> stages, const Batch& batch,
                                   const WeightStore& weights) {
    for (const auto steps : stages) {
      if (auto done = run(steps, batch, weights); !done.ok()) return done;
    }
    return {};
  }

  // Reads the rows of a slot as f32, row by row. Waits for earlier steps. REQUIRES: out.size() == rows x width
  virtual Result<void> read(std::span<float> out, SlotId slot) = 0;

  // The candidates of each of the first n rows of a slot of logits; valid until the next pass, read_candidates(),
  // reserve() or release(). A failing device may have written anything, so the caller must check the ids.
  // REQUIRES: n <= the output rows of the last batch
  virtual Result<std::span<const RowCandidates>> read_candidates(uint32_t n, SlotId logits) = 0;
  // The candidates of some rows of a slot of logits, of allowed tokens alone; valid as long as those above, which stay
  // valid, too. REQUIRES: as select_candidates(); at most as many as the last batch has output rows
  virtual Result<std::span<const RowCandidates>> read_allowed_candidates(std::span<const AllowedTokens> rows,
                                                                         SlotId logits) = 0;
};

}  // namespace rocmforge
