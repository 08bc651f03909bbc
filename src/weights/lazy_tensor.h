#pragma once
// A weight that is known before it is read: its name, shape, place in the file and address to come.

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/ids.h"
#include "gguf/header.h"
#include "weights/placement.h"

namespace rocmforge {

using WeightId = Id<struct WeightIdTag>;
// Weights that come and go together: a streamed stage, an expert. Only there under a budget.
using UnitId = Id<struct UnitIdTag>;

enum class LoadState : uint8_t {
  unloaded,
  loading,    // queued, or pieces being read and landed
  in_flight,  // every piece landed, what readers must wait for being recorded
  resident,
  failed,  // the next get or prefetch tries again
};

// One weight to be held by a store: a whole tensor, or whole rows out of one that several weights share (a fused
// projection).
struct WeightRequest {
  const gguf::TensorInfo* tensor = nullptr;
  WeightShape shape;
  uint32_t stage = 0;          // the plan's stage that uses it first: 0 embedding, 1 + i layer i, n_layers + 1 output
  uint64_t skip_bytes = 0;     // of the tensor, before this weight
  std::string_view part = {};  // what tells it from the tensor's other weights; empty: it is the whole tensor
  // One matrix of a stack: which. Needed only by the rows that are routed to it; a stage's experts are numbered from 0.
  std::optional<uint32_t> expert = {};
};

// A handle to one weight: what is known without reading it. Its content is reached through a Lease.
struct LazyTensor {
  WeightId id;
  std::string_view name;
  WeightShape shape;
  uint32_t stage = 0;
  uint32_t shard = 0;
  uint64_t file_offset = 0;
  uint64_t file_bytes = 0;
  uint64_t packed_bytes = 0;
  std::optional<uint32_t> expert = {};  // which of its stage it belongs to
  uint64_t address = 0;                 // offset into the placement's arena; of a weight that moves, into its berth
  std::optional<UnitId> unit = {};      // of a weight that moves: what it moves with
};

}  // namespace rocmforge
