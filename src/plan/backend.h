#pragma once
// What runs steps: the second of the two virtual interfaces (cpu/backend.h, gpu/backend.h).
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

// What a layer keeps of each position.
struct KvLayer {
  uint32_t n_heads = 0;                   // 0: nothing
  uint32_t key_size = 0, value_size = 0;  // of a head

  uint32_t key_width() const { return n_heads * key_size; }
  uint32_t value_width() const { return n_heads * value_size; }
  friend bool operator==(const KvLayer&, const KvLayer&) = default;
};

// The memory of a pass beside the weights, known before a byte is allocated.
struct PassMemory {
  std::span<const Slot> slots;
  uint32_t max_rows = 0;  // per pass
  uint32_t max_outputs = 0;
  uint32_t n_layers = 0;
  uint32_t n_pages = 0;
  uint32_t kv_width = 0;  // elements of one position's keys (values: the same) in one layer
  KvType kv_type = KvType::f16;
  uint32_t kv_head_size = 0;  // elements of one head; 0: not known, and a page cannot be laid out by heads
  std::span<const KvLayer> kv_layers = {};  // where layers differ; then kv_width is the widest one's

  KvLayer kv_layer(uint32_t i) const {
    if (!kv_layers.empty()) return kv_layers[i];
    const uint32_t head = kv_head_size != 0 ? kv_head_size : kv_width;
    return {head != 0 ? kv_width / head : 0, head, head};
  }
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;  // "cpu (avx2, 2 threads)"
  virtual Placement& placement() = 0;

  // Which fused steps it runs.
  virtual Fusions fusions() const { return {}; }
  // Whether it may join steps by itself while it runs them, as one does that knows no fused steps. Before the first
  // pass; default: yes.
  virtual void join_steps(bool) {}

  // unsupported, naming what is missing: this backend does not compute one of the steps.
  virtual Result<void> check_steps(std::span<const Step>, const WeightStore&) const { return {}; }
  // Tokens of a long prompt that are worth taking in one pass: more pay for memory and time to the first token, and
  // hardly in rate.
  virtual uint32_t rows_of_a_pass() const { return 256; }
  // Whether run() and run_settled() return while the device still works, so that the host may do something else until
  // it reads.
  virtual bool runs_ahead() const { return false; }
  // Memory of the host that a device works with by itself, held now.
  virtual uint64_t pinned_bytes() const { return 0; }

  // Bytes that reserve() would allocate.
  virtual uint64_t pass_bytes(const PassMemory& memory) const = 0;
  // Slots and KV pages. Called again with other sizes it replaces what was there.
  virtual Result<void> reserve(const PassMemory& memory) = 0;
  virtual void release() = 0;

  // Runs the steps in order. Every weight they name is resident; `weights` gives its address and shape.
  // REQUIRES: reserved for at least this batch.
  virtual Result<void> run(std::span<const Step> steps, const Batch& batch, const WeightStore& weights) = 0;

  // A whole pass at once, over weights that are settled (WeightStore::is_settled): the steps of all stages. The same
  // lists come again with every such pass of a plan, so a backend may record the work once and replay it.
  virtual Result<void> run_settled(std::span<const std::span<const Step>> stages, const Batch& batch,
                                   const WeightStore& weights) {
    for (const auto steps : stages) {
      if (auto done = run(steps, batch, weights); !done.ok()) return done;
    }
    return {};
  }

  // The rows of a slot as f32, row after row; waits for the steps before it. REQUIRES: out.size() = rows x width
  virtual Result<void> read(std::span<float> out, SlotId slot) = 0;

  // For each of the first n rows of a slot of logits, what a sampler needs of it; valid until the next pass, call,
  // reserve() or release(). A device that is about to fail may have written anything: ids are checked by whoever uses
  // them. REQUIRES: n <= the output rows of the last batch
  virtual Result<std::span<const RowCandidates>> read_candidates(uint32_t n, SlotId logits) = 0;
};

}  // namespace rocmforge
