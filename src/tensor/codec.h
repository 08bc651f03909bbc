#pragma once
// Rows of any weight type to f32 and back: the run-time choice over the per-format headers in tensor/formats.
// Threads: pure functions.

#include <cstddef>
#include <span>

#include "base/result.h"
#include "base/thread_pool.h"
#include "tensor/dtype.h"

namespace rocmforge {

// Decodes to.size() elements. REQUIRES: dtype is a weight type, to.size() is a multiple of its block_elements,
// from.size() is exactly the blocks' bytes.
void decode(std::span<float> to, DType dtype, std::span<const std::byte> from);

bool can_encode(DType dtype);

// Encodes rows of n_per_row floats, in parallel; the bytes do not depend on the number of threads. The squared error is
// close to the minimum (tensor/fit.h); values beyond a type's range are clamped to it. On an infinity or NaN the error
// names the first such element, and `to` is unspecified.
// REQUIRES: can_encode(dtype), n_per_row a multiple of block_elements, sizes that match.
Result<void> encode(std::span<std::byte> to, DType dtype, std::span<const float> from, size_t n_per_row,
                    ThreadPool& pool);

}  // namespace rocmforge
