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
  return {code, fmt::format("weights: tensor {}: {}", gguf::quoted(name), fact)};
}

Result<LazyTensor> make_handle(const gguf::GgufFile& file, const Placement& placement, const WeightRequest& request,
                               WeightId id) {
  CHECK(request.tensor != nullptr && request.tensor->shard < file.n_shards());
  const gguf::TensorInfo& info = *request.tensor;
  const WeightShape& shape = request.shape;
  const DTypeInfo& dtype = dtype_info(shape.dtype);
  const CheckedU64 file_bytes =
      CheckedU64(shape.row_elements / dtype.block_elements) * dtype.block_bytes * shape.n_rows * shape.n_matrices;
  const bool is_whole = request.part.empty();
  const bool fits = is_whole ? file_bytes.valid() && request.skip_bytes == 0 && file_bytes.value() == info.n_bytes
                             : (file_bytes + request.skip_bytes).fits(info.n_bytes);
  if (shape.dtype != info.dtype || shape.row_elements % dtype.block_elements != 0 || !fits || file_bytes.value() == 0) {
    return weight_error(
        ErrorCode::invalid_argument, info.name,
        fmt::format("{} x {} x {} of {} {} its {} bytes of {}", shape.row_elements, shape.n_rows, shape.n_matrices,
                    dtype.name, is_whole ? "are not" : "do not fit", info.n_bytes, dtype_info(info.dtype).name));
  }
  return LazyTensor{.id = id,
                    .name = info.name,
                    .shape = shape,
                    .stage = request.stage,
                    .shard = info.shard,
                    .file_offset = info.offset + request.skip_bytes,
                    .file_bytes = file_bytes.value(),
                    .packed_bytes = placement.packed_bytes(shape),
                    .address = 0};
}

// How many rows to read at once: whole units that fit a staging buffer, few enough that every loader gets a share.
Result<uint64_t> cut_pieces(const Placement& placement, const LazyTensor& weight, size_t n_loaders) {
  const uint64_t n_rows = weight.shape.total_rows();
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
  const uint64_t least = (WeightTable::kMinPieceBytes + unit_bytes - 1) / unit_bytes;
  return std::min(room / unit_bytes, std::max(share, least)) * unit;
}

}  // namespace

Result<WeightTable> WeightTable::build(const gguf::GgufFile& file, const Placement& placement,
                                       std::span<const WeightRequest> requests, size_t n_loaders) {
  CHECK(n_loaders > 0);
  WeightTable table;
  table.tensors_.reserve(requests.size());
  table.piece_rows_.reserve(requests.size());
  for (const WeightRequest& request : requests) {
    const WeightId id(static_cast<uint32_t>(table.tensors_.size()));
    table.tensors_.push_back(TRY(make_handle(file, placement, request, id)));
    if (!request.part.empty()) {
      table.part_names_.push_back(fmt::format("{}/{}", request.tensor->name, request.part));
      table.tensors_.back().name = table.part_names_.back();
    }
    table.piece_rows_.push_back(TRY(cut_pieces(placement, table.tensors_.back(), n_loaders)));
    if (request.stage >= table.stages_.size()) table.stages_.resize(request.stage + 1);
    table.stages_[request.stage].push_back(id);
  }

  table.names_ = gguf::NameIndex(gguf::names_of(table.tensors(), &LazyTensor::name));
  if (const auto twice = table.names_.first_duplicate()) {
    return weight_error(ErrorCode::invalid_argument, table.tensors_[*twice].name, "requested twice");
  }

  CheckedU64 end = 0;
  for (const std::vector<WeightId>& stage : table.stages_) {
    for (const WeightId id : stage) {
      LazyTensor& weight = table.tensors_[id.value];
      end = end.rounded_up(kAddressAlignment);
      if (end.valid()) weight.address = end.value();
      end += weight.packed_bytes;
    }
  }
  end = end.rounded_up(kAddressAlignment);
  if (!end.valid()) {
    return Error{ErrorCode::out_of_range, "weights: the arena's size does not fit 64 bits"};
  }
  table.arena_bytes_ = end.value();
  return table;
}

std::optional<WeightId> WeightTable::find(std::string_view name) const {
  const auto position = names_.find(name);
  if (!position) return std::nullopt;
  return WeightId(static_cast<uint32_t>(*position));
}

}  // namespace rocmforge
