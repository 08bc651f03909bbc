#pragma once
// The kernels of one instruction set, as a table of functions. Everything that depends on the instruction set is behind
// such a table.
//
// Within one table every sum is taken in one order, whatever the number of tokens, rows or threads:
//   quantized weights  integers inside 32 elements (or 16), then f32 multiply-adds per 32, ascending, one sum
//   packed floats      two sums, of even and of odd elements (with bf16 inputs: of even and odd pairs), ascending
//   rows of floats     8 or 16 lanes (element k goes to lane k % 8), ascending, then a fixed tree
//   attention          elements of a key, then positions of a page, ascending
// So a call may be split at any row or token without changing a bit. Different tables differ in the last bits.
//
// This header is included by files compiled for instruction sets that the machine may lack. The compiler could emit an
// inline, non-static function in such a file, and the linker could choose that copy for the whole program. So there is
// none here: plain structs, no library types. A test inspects those object files.
//
// Threads: pure functions.

#include <cstddef>
#include <cstdint>

namespace rocmforge::cpu {

// 32 activations as 8-bit integers, with the sums that the integer kernels need. A block with a NaN or an infinity has
// a NaN as scale, so that every output shows it.
struct QuantBlock {
  float scale;      // value = scale * q
  float sum;        // scale * (sum of all q)
  int16_t sums[2];  // of q[0 .. 15] and q[16 .. 31]
  int32_t negative_sums[2];
  int8_t q[32];  // -127 .. 127
};
static_assert(sizeof(QuantBlock) == 52);
inline constexpr size_t kQuantElements = 32;

// Rows of floats of one type, n_elements each, row_bytes apart.
struct FloatRows {
  const void* data;
  size_t row_bytes;
  size_t n_rows;
  size_t n_elements;
};

// Whole units of interleaved rows (tensor/packed.h), back to back.
struct PackedUnits {
  const void* data;
  size_t n_units;
  size_t n_groups;  // blocks along a row
};

// The inputs of a product and its destination: the first row's output goes to out[t][first_row].
template <class Input>
struct Tokens {
  const Input* const* in;
  float* const* out;
  size_t n;
  size_t first_row;
};

// out[t][first_row + r] = rows[r] . in[t]
using FloatMatmul = void (*)(const FloatRows& rows, const Tokens<float>& tokens);
// The form of the activations that packed weights are multiplied with.
enum class InputForm : uint8_t {
  floats,
  bf16,    // rounded to nearest, as uint16_t
  blocks,  // QuantBlock
};
inline constexpr size_t kInputForms = 3;
// out[t][first_row + (rows of a unit) u + lane] = row `lane` of unit u . in[t]; the format defines the form of the
// inputs
using PackedMatmul = void (*)(const PackedUnits& units, const Tokens<void>& tokens);
// Packs the rows of a unit from the file's layout; the size does not change.
using PackUnit = void (*)(void* unit, const void* rows, size_t n_groups);
// out[t][first_row + i] = keep[t] * itself + sum over rows r, ascending: in[t][r] * rows[r][i]; if keep is null, the
// old value is ignored. `next`, unless null: the rows that the caller needs after these, for prefetching.
using WeightedSum = void (*)(const FloatRows& rows, const Tokens<float>& tokens, const float* keep, const void* next);

// An online softmax of scores that arrive in pieces; starts with `largest` at minus infinity and `sum` at zero.
struct RunningSoftmax {
  float largest;  // of the scores so far
  float sum;      // of e^(scale * (score - largest))
};
// Replaces each of n > 0 further scores by its e^(scale * (score - largest)). Returns the factor for everything
// accumulated before, because `largest` may have changed. REQUIRES: scale >= 0
using AddScores = float (*)(RunningSoftmax& softmax, float* scores, size_t n, float scale);

// Rows of one run through the states of n_lanes elements of a head, in order (plan/step.h): `before` is the state that
// the run begins with (null: zeros) and `after` the one behind its last row; they may be the same. Both lie by number,
// then lane, lane_step apart. Rows of inputs and outputs are so many floats apart as their steps say.
struct DeltaRows {
  const float* before;
  float* after;
  const float *q, *k, *v;
  const float* factors;  // of each row: decay, share that is written, 1 / |k|, 1 / (|q| sqrt(key_size))
  float* out;
  size_t n_rows, in_step, out_step;
  size_t key_size, n_lanes, lane_step;
};
struct ScanRows {
  const float* before;
  float* after;
  const float *x, *b, *c;
  // Of each row. By head: decay and step. By element: a step for each lane.
  const float* steps;
  const float* decay;  // by element: of each number, then lane, decay_step apart; multiplied by the step
  const float* skip;   // one number, or by element of each lane
  float* out;
  size_t n_rows, x_step, b_step, c_step, steps_step, out_step;
  size_t state_size, n_lanes, lane_step, decay_step;
};

struct PackedFormat {
  uint32_t dtype;   // the value of a DType
  uint32_t n_rows;  // of a unit: 8 or 16
  InputForm input;
  PackUnit pack;
  PackedMatmul matmul;
};

struct Kernels {
  const char* name;

  // Products. Weights of other types are decoded to f32 first.
  FloatMatmul matmul_f32;
  FloatMatmul matmul_f16;
  FloatMatmul matmul_bf16;
  const PackedFormat* packed;  // the types that are kept packed
  size_t n_packed;
  void (*quantize)(QuantBlock* to, const float* from, size_t n_blocks);
  void (*to_bf16)(uint16_t* to, const float* from, size_t n);

  // Attention, besides products.
  WeightedSum weighted_sum_f32;
  WeightedSum weighted_sum_f16;
  AddScores add_scores;
  void (*to_f16)(uint16_t* to, const float* from, size_t n);

  // Elementwise; outputs may be inputs.
  void (*rms_norm)(float* to, const float* from, const float* weight, size_t n, float epsilon);
  void (*layer_norm)(float* to, const float* from, const float* weight, const float* bias, size_t n, float epsilon);
  void (*add)(float* to, const float* from, size_t n);
  void (*silu_multiply)(float* to, const float* gate, const float* up, size_t n);
  void (*gelu_multiply)(float* to, const float* gate, const float* up, size_t n);

  // Recurrent layers. A lane's sum goes over the state's numbers, ascending, whatever the number of rows and lanes.
  void (*delta_rows)(const DeltaRows& rows);
  void (*scan_by_head)(const ScanRows& rows);
  void (*scan_by_element)(const ScanRows& rows);

  // The sum of e^(x[i] - largest), in lanes; NaN if any x[i] is not finite. REQUIRES: no x[i] > largest
  float (*sum_of_powers)(const float* x, size_t n, float largest);
};

const Kernels& scalar_kernels();
#if defined(__x86_64__)
const Kernels& avx2_kernels();        // REQUIRES, to be used: AVX2, FMA and F16C
const Kernels& avx512_kernels();      // and AVX-512 F, BW, DQ, VL and VNNI
const Kernels& avx512bf16_kernels();  // and AVX512-BF16
#endif

}  // namespace rocmforge::cpu
