#pragma once
// Every kernel that the host launches, once. KernelSet has an enumerator for each.

// X(file of gpu/kernels, name)
#define RF_FIXED_KERNELS(X)                 \
  X(elementwise, add)                       \
  X(candidates, allowed_candidates)         \
  X(candidates, allowed_groups)             \
  X(candidates, candidate_groups)           \
  X(candidates, candidates)                 \
  X(elementwise, clamped_swish_multiply)    \
  X(experts, combine_experts)               \
  X(elementwise, gelu_multiply)             \
  X(experts, group_experts)                 \
  X(matmul_f32, matmul_f32)                 \
  X(matmul_fragments, matmul_fragments_64)  \
  X(matmul_fragments, matmul_fragments_128) \
  X(matmul_panels, matmul_panels_128)       \
  X(matmul_panels, matmul_panels_256)       \
  X(panels, panels)                         \
  X(norm, layer_norm)                       \
  X(norm, layer_norm_heads)                 \
  X(norm, layer_norm_wide)                  \
  X(quantize, quantize)                     \
  X(repack, repack)                         \
  X(norm, rms_norm)                         \
  X(norm, rms_norm_heads)                   \
  X(norm, rms_norm_wide)                    \
  X(rope, rope)                             \
  X(rope, row_rotations)                    \
  X(rope, rope_store_f16)                   \
  X(rope, rope_store_f32)                   \
  X(route, route)                           \
  X(elementwise, scale_and_cap)             \
  X(elementwise, silu_multiply)             \
  X(attend, store_kv_f16)                   \
  X(attend, store_kv_f32)                   \
  X(rare_steps, relu_multiply)              \
  X(rare_steps, relu_squared_multiply)      \
  X(rare_steps, xielu_multiply)             \
  X(rare_steps, clamped_silu_multiply)      \
  X(rare_steps, clamp)                      \
  X(rare_steps, gate)                       \
  X(rare_steps, temper)                     \
  X(rare_steps, scale_by)                   \
  X(rare_steps, take_columns)               \
  X(rare_steps, weigh)                      \
  X(rare_steps, forget_weights)             \
  X(rare_steps, scale_columns)              \
  X(rare_steps, mix_streams)                \
  X(rare_steps, match_length)               \
  X(rare_steps, cut_row)                    \
  X(stream_many_inputs, stream_many_inputs) \
  X(take_batch, take_batch)                 \
  X(elementwise, take_rows)                 \
  X(convolve, convolve)                     \
  X(scan, scan_head_128)                    \
  X(scan, scan_head_256)                    \
  X(scan, scan_element_16)                  \
  X(scan, scan_element_64)                  \
  X(delta_rule, delta_rule_128)             \
  X(delta_rule, delta_rule_256)             \
  X(attend, attend_f16_64)                  \
  X(attend, attend_f16_128)                 \
  X(attend, attend_f16_256)                 \
  X(attend, attend_f32_64)                  \
  X(attend, attend_f32_128)                 \
  X(attend, attend_f32_256)                 \
  X(attend_hopper, attend_hopper_64)        \
  X(attend_hopper, attend_hopper_128)       \
  X(attend_matrix, attend_matrix_64)        \
  X(attend_matrix, attend_matrix_128)       \
  X(attend_matrix, attend_matrix_256)       \
  X(attend_rows_hopper, attend_rows_64)     \
  X(attend_rows_hopper, attend_rows_128)    \
  X(attend_tiles, attend_tiles_64)          \
  X(attend_tiles, attend_tiles_128)         \
  X(attend_tiles, attend_tiles_alibi_64)    \
  X(attend_tiles, attend_tiles_alibi_128)   \
  X(attend_any, attend_any_f16_128)         \
  X(attend_any, attend_any_f16_256)         \
  X(attend_any, attend_any_f16_512)         \
  X(attend_any, attend_any_f16_576)         \
  X(attend_any, attend_any_f32_128)         \
  X(attend_any, attend_any_f32_256)         \
  X(attend_any, attend_any_f32_512)         \
  X(attend_any, attend_any_f32_576)         \
  X(texts, attend_texts_64)                 \
  X(texts, attend_texts_128)                \
  X(texts, attend_texts_256)                \
  X(texts, pool_texts)                      \
  X(texts, add_vector)

// Kernels that every format has, as far as no other condition is named:
//
//   experts_16, experts_64, fragments_*    not for F32
//   stream_*                               for formats of has_strips() and halves, on Hopper
//   many_*                                 for formats of has_strips()
//   rows_*                                 for has_rows_kernels()
//   hopper_*, experts_hopper_*             for is_for_hopper()
//
// The name of a kernel has the format's between two words: matvec_FORMAT_1. With strips, stream_1, many_rows_* and
// rows_* are also there for pairs of formats (RF_FORMAT_PAIRS): stream_FIRST_SECOND_1.
// X(enumerator, file of integer formats, file of floats, the first word, the last one)
#define RF_FORMAT_KERNELS(X)                                                          \
  X(embed, embed, embed, "embed_", "")                                                \
  X(matvec_1, matvec, matvec_float, "matvec_", "_1")                                  \
  X(matvec_8, matvec, matvec_float, "matvec_", "_8")                                  \
  X(experts_8, matvec, matvec_float, "experts_", "_8")                                \
  X(experts_16, stream_experts, stream_experts, "experts_", "_16")                    \
  X(experts_64, experts_fragments, experts_fragments, "experts_", "_64")              \
  X(tiles, tiles, tiles, "tiles_", "")                                                \
  X(weight_panels, panels, panels, "weight_panels_", "")                              \
  X(fragments_16, stream_fragments, stream_fragments, "stream_fragments_", "_16")     \
  X(fragments_32, stream_fragments, stream_fragments, "stream_fragments_", "_32")     \
  X(fragments_64, stream_fragments, stream_fragments, "stream_fragments_", "_64")     \
  X(stream_1, stream_hopper, stream_float_hopper, "stream_", "_1")                    \
  X(stream_8, stream_hopper, stream_float_hopper, "stream_", "_8")                    \
  X(many_rows_8, stream_many_hopper, stream_many_hopper, "stream_many_", "_rows_8")   \
  X(many_rows_16, stream_many_hopper, stream_many_hopper, "stream_many_", "_rows_16") \
  X(many_rows_32, stream_many_hopper, stream_many_hopper, "stream_many_", "_rows_32") \
  X(many_wide_8, stream_many_hopper, stream_many_hopper, "stream_many_", "_wide_8")   \
  X(many_wide_16, stream_many_hopper, stream_many_hopper, "stream_many_", "_wide_16") \
  X(many_wide_32, stream_many_hopper, stream_many_hopper, "stream_many_", "_wide_32") \
  X(rows_32, stream_rows_hopper, stream_rows_hopper, "stream_rows_", "_32")           \
  X(rows_64, stream_rows_hopper, stream_rows_hopper, "stream_rows_", "_64")           \
  X(rows_128, stream_rows_hopper, stream_rows_hopper, "stream_rows_", "_128")         \
  X(hopper_8, matmul_hopper, matmul_hopper, "matmul_hopper_", "_8")                   \
  X(hopper_16, matmul_hopper, matmul_hopper, "matmul_hopper_", "_16")                 \
  X(hopper_64, matmul_hopper, matmul_hopper, "matmul_hopper_", "_64")                 \
  X(hopper_128, matmul_hopper, matmul_hopper, "matmul_hopper_", "_128")               \
  X(experts_hopper_8, experts_hopper, experts_hopper, "experts_hopper_", "_8")        \
  X(experts_hopper_16, experts_hopper, experts_hopper, "experts_hopper_", "_16")      \
  X(experts_hopper_64, experts_hopper, experts_hopper, "experts_hopper_", "_64")      \
  X(experts_hopper_128, experts_hopper, experts_hopper, "experts_hopper_", "_128")
