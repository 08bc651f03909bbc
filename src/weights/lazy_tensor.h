#pragma once
// A weight that is known before it is read: its name, shape, place in the file and final address.

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/ids.h"
#include "gguf/header.h"
#include "weights/placement.h"

namespace rocmforge {

using WeightId = Id<struct WeightIdTag>;
// A group: weights that are loaded and evicted together (a streamed layer or an expert). Only under a memory budget.
using GroupId = Id<struct GroupIdTag>;

enum class LoadState : uint8_t {
  unloaded,
  loading,    // queued, or chunks being read and landed
  in_flight,  // every chunk is copied; the completion event is being recorded
  resident,
  failed,  // the next get or prefetch tries again
};

// A weight for a store: a whole tensor, or some rows of a tensor that several weights share (a fused projection).
struct WeightRequest {
  const gguf::TensorInfo* tensor = nullptr;
  WeightShape shape;
  uint32_t stage = 0;          // the plan's stage that uses it first: 0 embedding, 1 + i layer i, n_layers + 1 output
  uint64_t skip_bytes = 0;     // of the tensor, before this weight
  std::string_view part = {};  // distinguishes the weights of one tensor; empty: the whole tensor
  // The expert's index in its stage, from 0, for one matrix of a stack of experts. Only rows routed to it need it.
  std::optional<uint32_t> expert = {};
  bool stays = false;  // never streamed, even if its stage is
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
  std::optional<uint32_t> expert = {};  // expert index in its stage
  uint64_t address = 0;                 // offset into the placement's arena; for a streamed weight, into its cache slot
  std::optional<GroupId> group = {};    // the group of a streamed weight
  bool stays = false;                   // never streamed
};

}  // namespace rocmforge
