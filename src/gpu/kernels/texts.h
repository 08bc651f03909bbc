#pragma once
// Steps over whole texts: attention of their rows over each other, pooling, and a vector that is added to every row.

#include <cstdint>

#include "gpu/api.h"
#include "gpu/kernels/elementwise.h"

namespace rocmforge::gpu {

// attend_texts_64, _128, _256, by the larger of a head's keys and values: a block of kAttendTextsThreads for
// kAttendTextsRows rows of the batch and one query head.
inline constexpr uint32_t kAttendTextsThreads = 128, kAttendTextsRows = 16;
inline constexpr uint32_t kMaxAttendTextsSize = 256;

// Buckets of distances (distance_bucket in plan/step.h): in either direction the distances below n_exact have one each,
// and behind them a bucket begins at each of `starts`, in order; UINT32_MAX: no further one.
inline constexpr uint32_t kMaxDistanceBuckets = 64;
struct DistanceBuckets {
  const float* biases = nullptr;  // a row for each bucket, a number per head; null: none
  uint32_t n_exact = 0;
  uint32_t starts[kMaxDistanceBuckets / 4] = {};
};

struct AttendTextsArgs {
  float* out;
  const float* q;
  const float* k;
  const float* v;
  const uint32_t* first_row;   // by row of the batch: the first of its text
  const uint32_t* n_together;  // by row: the rows of its text
  uint32_t n_rows, n_heads, n_kv_heads, head_size, value_size;
  uint32_t reach;  // a row sees rows at most so far away
  float scale, softcap, alibi_bias;
  DistanceBuckets buckets = {};
};

// pool_texts: for each output row the rows of its text, pooled. A block of kElementThreads for an output.
struct PoolTextsArgs {
  float* out;
  const float* in;
  const uint32_t* output_rows;  // by output: the last row of its text
  const uint32_t* poolings;     // by output: a TextPooling
  const uint32_t* first_row;
  uint32_t width;
  uint32_t of_rank;  // in the place of `rank`
};

// The values of Pooling (model/spec.h).
enum class TextPooling : uint32_t { mean, first, last, rank };

// add_vector: rows of x plus a vector
struct AddVectorArgs {
  float* x;
  const float* vector;
  uint64_t n;
  uint32_t width;
};

}  // namespace rocmforge::gpu
