#pragma once
// What this machine's memory can do, measured when asked: the limit that decoding is compared with.

#include <cstddef>

namespace rocmforge::cpu {

// Bytes per second that n_threads read together, from a buffer larger than the caches. About 0.2 s.
double measure_read_rate(size_t n_threads);

// Bytes per second that n_threads fill fresh memory with, page faults included: the least a load must cost.
double measure_fill_rate(size_t n_threads);

}  // namespace rocmforge::cpu
