#pragma once
// The formats by how their matrix products are computed: X(suffix of the kernel's name, block type).

// With strips (packed/strips.h): Hopper's streaming kernels support these.
#define RF_STRIP_FORMATS(X) \
  X(q4_0, formats::Q4_0)    \
  X(q4_1, formats::Q4_1)    \
  X(q5_0, formats::Q5_0)    \
  X(q5_1, formats::Q5_1)    \
  X(q8_0, formats::Q8_0)    \
  X(q2_k, formats::Q2K)     \
  X(q3_k, formats::Q3K)     \
  X(q4_k, formats::Q4K)     \
  X(q5_k, formats::Q5K)     \
  X(q6_k, formats::Q6K)     \
  X(iq4_nl, formats::Iq4Nl) \
  X(iq4_xs, formats::Iq4Xs) \
  X(mxfp4, formats::Mxfp4)

// Of these, the formats whose products are exact in halves (packed/exact_strips.h): kernels for 17 rows and more.
#define RF_ROWS_FORMATS(X) \
  X(q4_k, formats::Q4K)    \
  X(q5_k, formats::Q5K)    \
  X(q6_k, formats::Q6K)

// Pairs of formats that streaming kernels multiply at once where they share their inputs, as the files of mixed formats
// have them: X(suffix of the first, of the second, block types).
#define RF_FORMAT_PAIRS(X)                  \
  X(q4_k, q6_k, formats::Q4K, formats::Q6K) \
  X(q5_k, q6_k, formats::Q5K, formats::Q6K)

#define RF_STRIPLESS_FORMATS(X) \
  X(q1_0, formats::Q1_0)        \
  X(q2_0, formats::Q2_0)        \
  X(iq1_s, formats::Iq1S)       \
  X(iq1_m, formats::Iq1M)       \
  X(iq2_xxs, formats::Iq2Xxs)   \
  X(iq2_xs, formats::Iq2Xs)     \
  X(iq2_s, formats::Iq2S)       \
  X(iq3_xxs, formats::Iq3Xxs)   \
  X(iq3_s, formats::Iq3S)       \
  X(tq1_0, formats::Tq1_0)      \
  X(tq2_0, formats::Tq2_0)      \
  X(nvfp4, formats::Nvfp4)

// Quants of a few bits with a scale per 16 or more weights: integer dot products (packed/integer_formats.h).
#define RF_INTEGER_FORMATS(X) RF_STRIP_FORMATS(X) RF_STRIPLESS_FORMATS(X)

#define RF_FLOAT_FORMATS(X) \
  X(f32, formats::PlainF32) \
  X(f16, formats::PlainF16) \
  X(bf16, formats::PlainBf16)

// Of these, the formats that the Hopper kernels multiply as halves.
#define RF_HALF_FORMATS(X)  \
  X(f16, formats::PlainF16) \
  X(bf16, formats::PlainBf16)
