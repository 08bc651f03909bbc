#include "gpu/pass_layout.h"

#include <algorithm>

#include "gpu/batch_upload.h"
#include "gpu/kernels/attend.h"
#include "gpu/kernels/matmul_hopper.h"
#include "gpu/kernels/quantize.h"

namespace rocmforge::gpu {

PassLayout pass_layout(const PassMemory& memory) {
  PassLayout out;
  uint64_t end = 0;
  const auto take = [&](uint64_t n_bytes) {
    const uint64_t at = end;
    end += (n_bytes + 255) / 256 * 256;
    return at;
  };
  uint64_t largest_slot = 0;  // elements
  uint32_t widest = 0;
  for (const Slot& slot : memory.slots) {
    const uint64_t n = uint64_t{slot.rows == SlotRows::batch ? memory.max_rows : memory.max_outputs} * slot.width;
    out.slots.push_back(take(n * sizeof(float)));
    largest_slot = std::max(largest_slot, n);
    if (slot.rows == SlotRows::batch) widest = std::max(widest, slot.width);
  }
  const uint64_t element_bytes = memory.kv_type == KvType::f16 ? 2 : 4;
  uint64_t kv_bytes = 0;
  for (uint32_t i = 0; i < memory.n_layers; i++) {
    const KvLayer layer = memory.kv_layer(i);
    out.kv.push_back(kv_bytes);
    kv_bytes += uint64_t{memory.pages_of(i)} * kPageTokens * (layer.key_width() + layer.value_width()) * element_bytes;
  }
  const uint64_t kv = take(kv_bytes);
  for (uint64_t& at : out.kv) at += kv;
  out.state_elements = memory.state_elements();
  uint64_t state = take(memory.n_states * out.state_elements * sizeof(float));
  for (const uint32_t width : memory.state_widths) {
    out.states.push_back(state);
    state += width * sizeof(float);
  }

  // Tiles are two bytes an element (kernels/tiles.h). Rows are padded up to the next tile.
  const uint64_t tile_rows = padded_rows(memory.max_rows, kHopperMaxRows);
  out.quants_bytes = std::max(largest_slot, tile_rows * widest * 2);
  out.quants = take(out.quants_bytes);
  out.quant_scales = take((largest_slot + 31) / 32 * sizeof(ActivationScale));
  out.row_scales = take(uint64_t{std::max(memory.max_rows, memory.max_outputs)} * sizeof(float));
  // What is found of a chunk is two numbers more than a head has, in whole words. Queries are hardly more than four
  // times as wide as keys; where they are, fewer rows fit.
  static_assert(kMinHeadSize >= 8);
  const uint64_t usual = std::min<uint64_t>(widest, uint64_t{4} * memory.kv_width);
  out.attention_parts_bytes =
      kMaxChunks * sizeof(float) * std::max(kMaxSplitRows * (usual + usual / 4), uint64_t{widest} + widest * 5 / 8);
  out.attention_parts = take(out.attention_parts_bytes);
  out.attention_arrivals_bytes = uint64_t{kMaxSplitRows} * (widest / kMinHeadSize) * sizeof(uint32_t);
  out.attention_arrivals = take(out.attention_arrivals_bytes);
  out.vector_bytes = (uint64_t{widest} * sizeof(float) + 255) / 256 * 256;
  out.vectors = take(PassLayout::kVectors * out.vector_bytes);
  out.rope_tables = take(uint64_t{kMaxRopeTables} * kMaxRopePairs * sizeof(double));
  out.row_rotations = take(kMaxRopeTables * kRowRotationsBytes);
  out.cache_rows = take(2 * kMaxTurnedRows * sizeof(uint32_t));
  out.row_input_scales = take(2 * kMaxNormedRows * sizeof(float));
  out.row_squares = take(uint64_t{kMaxNormedRows} * kMaxNormedPieces * sizeof(float));
  out.max_pages = std::min(memory.max_rows, kMaxPageLists) * memory.n_pages;
  if (memory.has_window_pages()) {
    out.max_pages *= 2;
    out.is_windowed.assign(memory.windowed.begin(), memory.windowed.end());
  }
  out.batch = take(BatchUpload::n_bytes(memory.max_rows, out.max_pages));
  out.total_bytes = end;
  return out;
}

}  // namespace rocmforge::gpu
