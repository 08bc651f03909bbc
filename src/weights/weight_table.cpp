#include "weights/weight_table.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/checked.h"
#include "base/file.h"
#include "base/units.h"
#include "gguf/format.h"

namespace rocmforge {
namespace {

Error weight_error(ErrorCode code, std::string_view name, std::string_view fact) {
  return {code, fmt::format("weights: tensor {}: {}", gguf::in_quotes(name), fact)};
}

Result<LazyTensor> make_handle(const gguf::GgufFile& file, const Placement& placement, const WeightRequest& request,
                               WeightId id) {
  CHECK(request.tensor != nullptr && request.tensor->shard < file.n_shards());
  const gguf::TensorInfo& info = *request.tensor;
  const WeightShape& shape = request.shape;
  const DTypeInfo& dtype = dtype_info(shape.dtype);
  const CheckedU64 file_bytes =
      CheckedU64(shape.row_elements / dtype.block_elements) * dtype.block_bytes * shape.n_rows;
  const bool is_whole = request.part.empty() && !request.expert;
  const bool fits = is_whole ? file_bytes.valid() && request.skip_bytes == 0 && file_bytes.value() == info.n_bytes
                             : (file_bytes + request.skip_bytes).fits(info.n_bytes);
  if (shape.dtype != info.dtype || shape.row_elements % dtype.block_elements != 0 || !fits || file_bytes.value() == 0) {
    return weight_error(ErrorCode::invalid_argument, info.name,
                        fmt::format("{} x {} of {} {} its {} bytes of {}", shape.row_elements, shape.n_rows, dtype.name,
                                    is_whole ? "are not" : "do not fit", info.n_bytes, dtype_info(info.dtype).name));
  }
  return LazyTensor{.id = id,
                    .name = info.name,
                    .shape = shape,
                    .stage = request.stage,
                    .shard = info.shard,
                    .file_offset = info.offset + request.skip_bytes,
                    .file_bytes = file_bytes.value(),
                    .packed_bytes = placement.packed_bytes(shape),
                    .expert = request.expert,
                    .stays = request.stays};
}

// What a weight takes of the arena, so that whatever follows is aligned.
CheckedU64 padded(const LazyTensor& weight) {
  return CheckedU64(weight.packed_bytes).rounded_up(WeightTable::kAddressAlignment);
}

// How many rows to read at once: whole units that fit a staging buffer, few enough that every loader gets a share.
Result<uint64_t> cut_chunks(const Placement& placement, const LazyTensor& weight, size_t n_loaders) {
  const uint64_t n_rows = weight.shape.n_rows;
  const uint64_t row_bytes = weight.shape.row_bytes();
  const uint64_t unit = std::min(placement.rows_per_unit(weight.shape), n_rows);
  // A direct read takes whole blocks, so it may hold part of one too many at either end.
  CHECK(unit > 0 && placement.staging_bytes() > 2 * File::kDirectAlignment);
  const uint64_t room = placement.staging_bytes() - 2 * File::kDirectAlignment;

  const uint64_t unit_bytes = unit * row_bytes;
  if (unit_bytes > room) {
    return weight_error(ErrorCode::unsupported, weight.name,
                        fmt::format("{} rows of {} do not fit a staging buffer of {}", unit, format_bytes(row_bytes),
                                    format_bytes(placement.staging_bytes())));
  }
  const uint64_t n_units = (n_rows + unit - 1) / unit;
  const uint64_t share = (n_units + n_loaders - 1) / n_loaders;
  const uint64_t least = (WeightTable::kMinChunkBytes + unit_bytes - 1) / unit_bytes;
  return std::min(room / unit_bytes, std::max(share, least)) * unit;
}

}  // namespace

Result<WeightTable> WeightTable::build(const gguf::GgufFile& file, const Placement& placement,
                                       std::span<const WeightRequest> requests, size_t n_loaders,
                                       std::optional<uint64_t> budget_bytes) {
  CHECK(n_loaders > 0);
  WeightTable table;
  table.tensors_.reserve(requests.size());
  table.chunk_rows_.reserve(requests.size());
  for (const WeightRequest& request : requests) {
    const WeightId id(static_cast<uint32_t>(table.tensors_.size()));
    table.tensors_.push_back(TRY(make_handle(file, placement, request, id)));
    if (!request.part.empty() || request.expert) {
      const std::string_view of = request.tensor->name;
      std::string name(of);
      if (!request.part.empty()) name += fmt::format("/{}", request.part);
      if (request.expert) name += fmt::format("/{}", *request.expert);
      table.part_names_.push_back(std::move(name));
      table.tensors_.back().name = table.part_names_.back();
    }
    table.chunk_rows_.push_back(TRY(cut_chunks(placement, table.tensors_.back(), n_loaders)));
    if (request.stage >= table.stages_.size()) table.stages_.resize(request.stage + 1);
    table.stages_[request.stage].push_back(id);
  }

  table.names_ = gguf::NameIndex(gguf::names_of(table.tensors(), &LazyTensor::name));
  if (const auto twice = table.names_.first_duplicate()) {
    return weight_error(ErrorCode::invalid_argument, table.tensors_[*twice].name, "requested twice");
  }

  table.streamed_.assign(table.n_stages(), false);
  CheckedU64 total = 0;
  for (const LazyTensor& weight : table.tensors_) total += padded(weight);
  if (!total.valid()) return Error{ErrorCode::out_of_range, "weights: the arena's size does not fit 64 bits"};
  if (budget_bytes) TRY(table.choose_groups(*budget_bytes));
  TRY(table.lay_out());
  return table;
}

Result<void> WeightTable::choose_groups(uint64_t budget_bytes) {
  std::vector<StageBytes> sizes(n_stages());
  std::vector<std::vector<uint64_t>> expert_bytes(n_stages());
  uint64_t n_staying = 0;
  for (uint32_t s = 0; s < n_stages(); s++) {
    for (const WeightId id : stages_[s]) {
      const uint64_t n_bytes = padded(tensor(id)).value();
      const auto expert = tensor(id).expert;
      if (!expert) {
        (tensor(id).stays ? n_staying : sizes[s].own) += n_bytes;
        continue;
      }
      if (*expert >= expert_bytes[s].size()) expert_bytes[s].resize(*expert + 1);
      expert_bytes[s][*expert] += n_bytes;
      sizes[s].experts += n_bytes;
    }
    for (const uint64_t n_bytes : expert_bytes[s]) sizes[s].largest_expert = std::max(sizes[s].largest_expert, n_bytes);
    sizes[s].n_experts = static_cast<uint32_t>(expert_bytes[s].size());
  }
  const Residency residency = TRY(choose_residency(sizes, budget_bytes - std::min(budget_bytes, n_staying)));

  streamed_ = residency.streamed;
  experts_move_ = residency.experts.n_slots > 0;
  const auto add_pool = [&](const Residency::Pool& pool) {
    pools_.push_back({0, pool.slot_bytes, pool.n_slots});
    return static_cast<uint32_t>(pools_.size() - 1);
  };
  const uint32_t stage_pool = residency.stages.n_slots > 0 ? add_pool(residency.stages) : 0;
  const uint32_t expert_pool = experts_move_ ? add_pool(residency.experts) : 0;
  for (uint32_t s = 0; s < n_stages(); s++) {
    std::optional<GroupId> own;
    std::vector<std::optional<GroupId>> experts(sizes[s].n_experts);
    for (const WeightId id : stages_[s]) {
      const auto expert = tensor(id).expert;
      if (tensor(id).stays || (expert ? !experts_move_ : !streamed_[s])) continue;
      std::optional<GroupId>& group = expert ? experts[*expert] : own;
      if (!group) group = add_group(expert ? expert_pool : stage_pool);
      join_group(id, *group);
    }
  }
  return {};
}

GroupId WeightTable::add_group(uint32_t pool) {
  groups_.push_back({{}, pool, 0});
  return GroupId(static_cast<uint32_t>(groups_.size() - 1));
}

void WeightTable::join_group(WeightId weight, GroupId group) {
  LazyTensor& joined = tensors_[weight.value];
  Group& to = groups_[group.value];
  joined.group = group;
  joined.address = to.packed_bytes;
  to.packed_bytes += padded(joined).value();
  to.weights.push_back(weight);
}

// Resident weights, then the cache slots.
Result<void> WeightTable::lay_out() {
  CheckedU64 end = 0;
  for (const std::vector<WeightId>& ids : stages_) {
    for (const WeightId id : ids) {
      LazyTensor& weight = tensors_[id.value];
      if (weight.group) continue;
      weight.address = end.value();
      end += padded(weight);
    }
  }
  for (Pool& pool : pools_) {
    pool.address = end.value();
    end += CheckedU64(pool.slot_bytes) * pool.n_slots;
    if (!end.valid()) return Error{ErrorCode::out_of_range, "weights: the arena's size does not fit 64 bits"};
  }
  arena_bytes_ = end.value();
  return {};
}

std::optional<WeightId> WeightTable::find(std::string_view name) const {
  const auto position = names_.find(name);
  if (!position) return std::nullopt;
  return WeightId(static_cast<uint32_t>(*position));
}

}  // namespace rocmforge
