#pragma once
// What a store knows about its weights before any of them is read: handles with final addresses, the stages, and how
// each weight is cut into pieces. Under a budget some weights move (residency.h): they make up units, which take turns
// in the berths of a pool.
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
  // Addresses are aligned to this: four cache lines, and what device copies and tensor loads ask for.
  static constexpr uint64_t kAddressAlignment = 256;
  // A weight is cut finer than staging buffers ask for so that all loaders share it, down to pieces of this size.
  // A layer streamed to an H200 by 8 loaders came at 41 GB/s in pieces of some 1 MiB and at 49 in pieces of 2
  // (2026-11-15); what other loaders lack of one weight they find in the next.
  static constexpr uint64_t kMinPieceBytes = 2 << 20;

  struct Pool {
    uint64_t address = 0;  // of the first berth
    uint64_t berth_bytes = 0;
    uint32_t n_berths = 0;
  };
  struct Unit {
    std::vector<WeightId> weights;
    uint32_t pool = 0;
    uint64_t packed_bytes = 0;
  };

  // Weight i is requests[i]; addresses ascend by stage, then by request; berths follow. Without a budget nothing moves.
  // invalid_argument: a tensor requested twice, or a shape that is not the tensor's; unsupported: rows too long for the
  // placement's staging buffers; out_of_range: sizes that do not fit 64 bits; out_of_memory: the budget is too small.
  static Result<WeightTable> build(const gguf::GgufFile& file, const Placement& placement,
                                   std::span<const WeightRequest> requests, size_t n_loaders,
                                   std::optional<uint64_t> budget_bytes = {});

  size_t size() const { return tensors_.size(); }
  std::span<const LazyTensor> tensors() const { return tensors_; }
  const LazyTensor& tensor(WeightId id) const { return tensors_[id.value]; }
  std::optional<WeightId> find(std::string_view name) const;

  // Pieces of a weight begin at multiples of this many rows.
  uint64_t piece_rows(WeightId id) const { return piece_rows_[id.value]; }
  uint64_t arena_bytes() const { return arena_bytes_; }

  uint32_t n_stages() const { return static_cast<uint32_t>(stages_.size()); }
  std::span<const WeightId> stage(uint32_t index) const { return stages_[index]; }
  // The first stage is the embedding's and the last the output's; layers lie between.
  uint32_t n_layers() const { return n_stages() > 2 ? n_stages() - 2 : 0; }

  std::span<const Pool> pools() const { return pools_; }
  std::span<const Unit> units() const { return units_; }
  const Unit& unit(UnitId id) const { return units_[id.value]; }
  // The stage's weights, but for its experts, are a unit.
  bool is_streamed(uint32_t stage) const { return streamed_[stage]; }
  // Experts take turns.
  bool experts_move() const { return experts_move_; }

 private:
  Result<void> choose_units(uint64_t budget_bytes);
  UnitId add_unit(uint32_t pool);
  void join_unit(WeightId weight, UnitId unit);
  Result<void> lay_out();

  std::deque<std::string> part_names_;  // of weights that are parts of tensors; never reallocated
  std::vector<LazyTensor> tensors_;
  std::vector<uint64_t> piece_rows_;
  std::vector<std::vector<WeightId>> stages_;
  std::vector<Pool> pools_;
  std::vector<Unit> units_;
  std::vector<bool> streamed_;
  bool experts_move_ = false;
  gguf::NameIndex names_;
  uint64_t arena_bytes_ = 0;
};

}  // namespace rocmforge
