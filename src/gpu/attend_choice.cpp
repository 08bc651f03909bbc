#include "gpu/attend_choice.h"

#include "base/check.h"
#include "gpu/kernels/attend_any.h"
#include "gpu/kernels/attend_hopper.h"
#include "gpu/kernels/attend_matrix.h"
#include "gpu/kernels/attend_rows_hopper.h"
#include "gpu/kernels/attend_tiles.h"

namespace rocmforge::gpu {
namespace {

using Device = AttendDevice;
using Query = AttendQuery;

bool has_alibi(const Query& q) {
  return q.args.alibi_bias != 0;
}

// ---- rows together ----

bool can_tile(const Query& q) {
  return q.caches_halves && q.n_rows > q.max_mixed_rows && q.most_rows >= kMinTiledRows &&
         has_attend_tiles(q.args.head_size) && q.args.value_size == q.args.head_size;
}
bool by_tiles(const Device& device, const Query& q) {
  return device.has_fragments && can_tile(q);
}
bool by_hopper_tiles(const Device& device, const Query& q) {
  const bool has_chunks = q.args.chunk != 0 && q.longest > q.args.chunk;
  return device.has_hopper && can_tile(q) && !has_alibi(q) && !has_chunks &&
         has_attend_hopper(q.args.head_size, q.args.softcap);
}

// ---- row by row ----

bool by_any(const Device&, const Query& q) {
  return needs_attend_any(q.args);
}
bool by_matrix(const Device& device, const Query& q) {
  return q.caches_halves && device.has_mma && has_attend_matrix(q.args.head_size);
}
bool by_hopper_rows(const Device& device, const Query& q) {
  return device.has_hopper && by_matrix(device, q) &&
         has_attend_rows({q.args, q.n_rows, attend_head_blocks(q.args, kMatrixHeads)});
}
bool always(const Device&, const Query&) {
  return true;
}

struct Rule {
  AttendRoute route;
  bool (*takes)(const Device&, const Query&);
};
constexpr Rule kTogether[] = {
    {AttendRoute::hopper_tiles, by_hopper_tiles},
    {AttendRoute::tiles, by_tiles},
};
constexpr Rule kByRow[] = {
    {AttendRoute::any, by_any},
    {AttendRoute::hopper_rows, by_hopper_rows},
    {AttendRoute::matrix, by_matrix},
    {AttendRoute::plain, always},
};

FixedKernel any_kernel(uint32_t size, bool f16) {
  switch (size) {
    case 128:
      return f16 ? FixedKernel::attend_any_f16_128 : FixedKernel::attend_any_f32_128;
    case 256:
      return f16 ? FixedKernel::attend_any_f16_256 : FixedKernel::attend_any_f32_256;
    case 512:
      return f16 ? FixedKernel::attend_any_f16_512 : FixedKernel::attend_any_f32_512;
    default:
      return f16 ? FixedKernel::attend_any_f16_576 : FixedKernel::attend_any_f32_576;
  }
}

AttendChoice choice_of(AttendRoute of, const Query& q) {
  const auto by_size = [&](FixedKernel of_64, FixedKernel of_128, FixedKernel of_256) {
    return q.args.head_size <= 64 ? of_64 : q.args.head_size <= 128 ? of_128 : of_256;
  };
  using enum FixedKernel;
  switch (of) {
    case AttendRoute::hopper_tiles:
      return {of, by_size(attend_hopper_64, attend_hopper_128, attend_hopper_128)};
    case AttendRoute::tiles:
      return {of, has_alibi(q) ? by_size(attend_tiles_alibi_64, attend_tiles_alibi_128, attend_tiles_alibi_128)
                               : by_size(attend_tiles_64, attend_tiles_128, attend_tiles_128)};
    case AttendRoute::any:
      return {of, any_kernel(attend_any_size(q.args), q.caches_halves), attend_any_heads(attend_any_size(q.args))};
    case AttendRoute::hopper_rows:
      return {of, by_size(attend_rows_64, attend_rows_128, attend_rows_128), kMatrixHeads};
    case AttendRoute::matrix:
      return {of, by_size(attend_matrix_64, attend_matrix_128, attend_matrix_256), kMatrixHeads};
    case AttendRoute::plain:
      return {of, q.caches_halves ? by_size(attend_f16_64, attend_f16_128, attend_f16_256)
                                  : by_size(attend_f32_64, attend_f32_128, attend_f32_256)};
  }
  RF_UNREACHABLE("an AttendRoute outside its enum");
}

}  // namespace

std::optional<AttendChoice> choose_attend_together(const AttendDevice& device, const AttendQuery& query) {
  for (const Rule& rule : kTogether) {
    if (rule.takes(device, query)) return choice_of(rule.route, query);
  }
  return std::nullopt;
}

AttendChoice choose_attend_by_row(const AttendDevice& device, const AttendQuery& query) {
  for (const Rule& rule : kByRow) {
    if (rule.takes(device, query)) return choice_of(rule.route, query);
  }
  RF_UNREACHABLE("attention without a kernel");
}

}  // namespace rocmforge::gpu
