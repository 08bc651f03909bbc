#pragma once
// What a store knows about its weights before any of them is read: handles with final addresses, the stages, and how
// each weight is divided into chunks. Under a budget some weights are streamed (residency.h): they form groups, which
// share the cache slots of a pool.
//
// Threads: immutable.

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/name_index.h"
#include "gguf/reader.h"
#include "weights/lazy_tensor.h"
#include "weights/placement.h"
#include "weights/residency.h"

namespace rocmforge {

class WeightTable {
 public:
  // Alignment of addresses: four cache lines, as required by device copies and tensor loads.
  static constexpr uint64_t kAddressAlignment = 256;
  // Weights are divided more finely than the staging buffers require, so that all loaders share the work, down to
  // chunks of this size. On an H200, 8 loaders streamed a layer at 41 GB/s in chunks of about 1 MiB and at 49 GB/s in
  // chunks of 2 MiB (2026-11-15). Loaders without a chunk of one weight take one of the next weight.
  static constexpr uint64_t kMinChunkBytes = 2 << 20;

  struct Pool {
    uint64_t address = 0;  // of the first cache slot
    uint64_t slot_bytes = 0;
    uint32_t n_slots = 0;
  };
  struct Group {
    std::vector<WeightId> weights;
    uint32_t pool = 0;
    uint64_t packed_bytes = 0;
  };

  // Weight i is requests[i]. Addresses ascend by stage, then by request; cache slots follow. Without a budget nothing
  // is streamed.
  // Errors: invalid_argument (a tensor requested twice, or a shape that is not the tensor's), unsupported (rows too
  // long for the placement's staging buffers), out_of_range (sizes that do not fit 64 bits), out_of_memory (the budget
  // is too small).
  static Result<WeightTable> build(const gguf::GgufFile& file, const Placement& placement,
                                   std::span<const WeightRequest> requests, size_t n_loaders,
                                   std::optional<uint64_t> budget_bytes = {});

  size_t size() const { return tensors_.size(); }
  std::span<const LazyTensor> tensors() const { return tensors_; }
  const LazyTensor& tensor(WeightId id) const { return tensors_[id.value]; }
  std::optional<WeightId> find(std::string_view name) const;

  // Chunks of a weight begin at multiples of this many rows.
  uint64_t chunk_rows(WeightId id) const { return chunk_rows_[id.value]; }
  uint64_t arena_bytes() const { return arena_bytes_; }

  uint32_t n_stages() const { return static_cast<uint32_t>(stages_.size()); }
  std::span<const WeightId> stage(uint32_t index) const { return stages_[index]; }
  // The first stage is the embedding, the last is the output; layers lie between.
  uint32_t n_layers() const { return n_stages() > 2 ? n_stages() - 2 : 0; }

  std::span<const Pool> pools() const { return pools_; }
  std::span<const Group> groups() const { return groups_; }
  const Group& group(GroupId id) const { return groups_[id.value]; }
  // The stage's weights, except its experts, are one streamed group.
  bool is_streamed(uint32_t stage) const { return streamed_[stage]; }
  // Experts are streamed.
  bool experts_move() const { return experts_move_; }

 private:
  Result<void> choose_groups(uint64_t budget_bytes);
  GroupId add_group(uint32_t pool);
  void join_group(WeightId weight, GroupId group);
  Result<void> lay_out();

  std::deque<std::string> part_names_;  // of weights that are parts of tensors; never reallocated
  std::vector<LazyTensor> tensors_;
  std::vector<uint64_t> chunk_rows_;
  std::vector<std::vector<WeightId>> stages_;
  std::vector<Pool> pools_;
  std::vector<Group> groups_;
  std::vector<bool> streamed_;
  bool experts_move_ = false;
  gguf::NameIndex names_;
  uint64_t arena_bytes_ = 0;
};

}  // namespace rocmforge
