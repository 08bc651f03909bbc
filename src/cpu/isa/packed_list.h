#pragma once
// The list of all packed formats. Everything here is static (see kernels.h).

#include "cpu/isa/packed_codebooks.h"
#include "cpu/isa/packed_few_bits.h"
#include "cpu/isa/packed_floats.h"

// For the vectors V.
#define RF_PACKED_FORMATS(V)                                                                             \
  {packed_format_of<Q4_0, V>(),      packed_format_of<Q4_1, V>(),      packed_format_of<Q5_0, V>(),      \
   packed_format_of<Q5_1, V>(),      packed_format_of<Q8_0, V>(),      packed_format_of<Q2K, V>(),       \
   packed_format_of<Q3K, V>(),       packed_format_of<Q4K, V>(),       packed_format_of<Q5K, V>(),       \
   packed_format_of<Q6K, V>(),       packed_format_of<Iq4Nl, V>(),     packed_format_of<Iq4Xs, V>(),     \
   packed_format_of<Mxfp4, V>(),     packed_format_of<Nvfp4, V>(),     packed_format_of<Iq1S, V>(),      \
   packed_format_of<Iq1M, V>(),      packed_format_of<Iq2Xxs, V>(),    packed_format_of<Iq2Xs, V>(),     \
   packed_format_of<Iq2S, V>(),      packed_format_of<Iq3Xxs, V>(),    packed_format_of<Iq3S, V>(),      \
   packed_format_of<Tq1_0, V>(),     packed_format_of<Tq2_0, V>(),     packed_format_of<Q1_0, V>(),      \
   packed_format_of<Q2_0, V>(),      packed_float_format_of<F32, V>(), packed_float_format_of<F16, V>(), \
   packed_float_format_of<Bf16, V>()}
