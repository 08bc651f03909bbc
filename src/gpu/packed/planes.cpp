#include "gpu/packed/planes.h"

#include "base/check.h"
#include "tensor/formats/all.h"

namespace rocmforge::gpu {

// The layout is read from the block's own declaration: a plane is one field, or neighbouring ones from the first to the
// last.
#define RF_FIELDS(Block, first, last)                                                         \
  PlaneField {                                                                                \
    offsetof(formats::Block, first),                                                          \
        static_cast<uint32_t>(offsetof(formats::Block, last) + sizeof(formats::Block::last) - \
                              offsetof(formats::Block, first))                                \
  }
#define RF_FIELD(Block, field) RF_FIELDS(Block, field, field)
#define RF_PLANES(Block, ...)                                        \
  {                                                                  \
    constexpr PlaneField fields[] = {__VA_ARGS__};                   \
    static_assert(holds_every_byte(sizeof(formats::Block), fields)); \
    return table_of(sizeof(formats::Block), fields);                 \
  }

namespace {

// Whether fields cover a block without gaps and without overlap.
template <size_t kFields>
constexpr bool holds_every_byte(size_t block_bytes, const PlaneField (&fields)[kFields]) {
  static_assert(kFields <= kMaxPlanes);
  for (size_t byte = 0; byte < block_bytes; byte++) {
    int n = 0;
    for (const PlaneField& f : fields) n += byte >= f.offset && byte < f.offset + f.n_bytes ? 1 : 0;
    if (n != 1) return false;
  }
  return true;
}

template <size_t kFields>
PlaneTable table_of(uint32_t block_bytes, const PlaneField (&fields)[kFields]) {
  PlaneTable out{block_bytes, kFields, {}};
  for (size_t p = 0; p < kFields; p++) out.fields[p] = fields[p];
  return out;
}

}  // namespace

PlaneTable plane_table(DType dtype) {
  switch (dtype) {
    case DType::q1_0:
      RF_PLANES(Q1_0, RF_FIELD(Q1_0, qs), RF_FIELD(Q1_0, d));
    case DType::q2_0:
      RF_PLANES(Q2_0, RF_FIELD(Q2_0, qs), RF_FIELD(Q2_0, d));
    case DType::q4_0:
      RF_PLANES(Q4_0, RF_FIELD(Q4_0, qs), RF_FIELD(Q4_0, d));
    case DType::iq4_nl:
      RF_PLANES(Iq4Nl, RF_FIELD(Iq4Nl, qs), RF_FIELD(Iq4Nl, d));
    case DType::q4_1:
      RF_PLANES(Q4_1, RF_FIELD(Q4_1, qs), RF_FIELDS(Q4_1, d, m));
    case DType::q5_0:
      RF_PLANES(Q5_0, RF_FIELD(Q5_0, qs), RF_FIELD(Q5_0, qh), RF_FIELD(Q5_0, d));
    case DType::q5_1:
      RF_PLANES(Q5_1, RF_FIELD(Q5_1, qs), RF_FIELD(Q5_1, qh), RF_FIELDS(Q5_1, d, m));
    case DType::q8_0:
      RF_PLANES(Q8_0, RF_FIELD(Q8_0, qs), RF_FIELD(Q8_0, d));
    case DType::mxfp4:
      RF_PLANES(Mxfp4, RF_FIELD(Mxfp4, qs), RF_FIELD(Mxfp4, e));
    case DType::nvfp4:
      RF_PLANES(Nvfp4, RF_FIELD(Nvfp4, qs), RF_FIELD(Nvfp4, d));
    case DType::q2_k:
      RF_PLANES(Q2K, RF_FIELD(Q2K, qs), RF_FIELD(Q2K, scales), RF_FIELDS(Q2K, d, dmin));
    case DType::q3_k:
      RF_PLANES(Q3K, RF_FIELD(Q3K, qs), RF_FIELD(Q3K, hmask), RF_FIELD(Q3K, scales), RF_FIELD(Q3K, d));
    case DType::q4_k:
      RF_PLANES(Q4K, RF_FIELD(Q4K, qs), RF_FIELDS(Q4K, d, scales));
    case DType::q5_k:
      RF_PLANES(Q5K, RF_FIELD(Q5K, qs), RF_FIELD(Q5K, qh), RF_FIELDS(Q5K, d, scales));
    case DType::q6_k:
      RF_PLANES(Q6K, RF_FIELD(Q6K, ql), RF_FIELD(Q6K, qh), RF_FIELD(Q6K, scales), RF_FIELD(Q6K, d));
    case DType::iq4_xs:
      RF_PLANES(Iq4Xs, RF_FIELD(Iq4Xs, qs), RF_FIELDS(Iq4Xs, d, scales_l));
    case DType::iq1_s:
      RF_PLANES(Iq1S, RF_FIELD(Iq1S, qs), RF_FIELD(Iq1S, qh), RF_FIELD(Iq1S, d));
    case DType::iq1_m:
      RF_PLANES(Iq1M, RF_FIELD(Iq1M, qs), RF_FIELD(Iq1M, qh), RF_FIELD(Iq1M, scales));
    case DType::iq2_xxs:
      RF_PLANES(Iq2Xxs, RF_FIELD(Iq2Xxs, groups), RF_FIELD(Iq2Xxs, d));
    case DType::iq2_xs:
      RF_PLANES(Iq2Xs, RF_FIELD(Iq2Xs, qs), RF_FIELD(Iq2Xs, scales), RF_FIELD(Iq2Xs, d));
    case DType::iq2_s:
      RF_PLANES(Iq2S, RF_FIELDS(Iq2S, qs, signs), RF_FIELDS(Iq2S, qh, scales), RF_FIELD(Iq2S, d));
    case DType::iq3_xxs:
      RF_PLANES(Iq3Xxs, RF_FIELD(Iq3Xxs, qs), RF_FIELD(Iq3Xxs, signs), RF_FIELD(Iq3Xxs, d));
    case DType::iq3_s:
      RF_PLANES(Iq3S, RF_FIELD(Iq3S, qs), RF_FIELD(Iq3S, qh), RF_FIELDS(Iq3S, signs, scales), RF_FIELD(Iq3S, d));
    case DType::tq1_0:
      RF_PLANES(Tq1_0, RF_FIELD(Tq1_0, qs), RF_FIELD(Tq1_0, qh), RF_FIELD(Tq1_0, d));
    case DType::tq2_0:
      RF_PLANES(Tq2_0, RF_FIELD(Tq2_0, qs), RF_FIELD(Tq2_0, d));
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::q8_1:
    case DType::q8_k:
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::i64:
    case DType::f64: {
      const uint32_t n_bytes = dtype_info(dtype).block_bytes;
      return {n_bytes, 1, {{0, n_bytes}}};
    }
  }
  RF_UNREACHABLE("a DType outside its enum");
}

}  // namespace rocmforge::gpu
