#pragma once
// Every weight format, and the one place where a DType known at run time selects a block type.
//
//   with_format(dtype, [&]<class Block>() { ... sizeof(Block), Block::kElements, formats::decode(to, block) ... });

#include "base/check.h"
#include "tensor/dtype.h"
#include "tensor/formats/iq1_m.h"
#include "tensor/formats/iq1_s.h"
#include "tensor/formats/iq2_s.h"
#include "tensor/formats/iq2_xs.h"
#include "tensor/formats/iq2_xxs.h"
#include "tensor/formats/iq3_s.h"
#include "tensor/formats/iq3_xxs.h"
#include "tensor/formats/iq4_nl.h"
#include "tensor/formats/iq4_xs.h"
#include "tensor/formats/mxfp4.h"
#include "tensor/formats/nvfp4.h"
#include "tensor/formats/plain.h"
#include "tensor/formats/q1_0.h"
#include "tensor/formats/q2_0.h"
#include "tensor/formats/q2_k.h"
#include "tensor/formats/q3_k.h"
#include "tensor/formats/q4_0.h"
#include "tensor/formats/q4_1.h"
#include "tensor/formats/q4_k.h"
#include "tensor/formats/q5_0.h"
#include "tensor/formats/q5_1.h"
#include "tensor/formats/q5_k.h"
#include "tensor/formats/q6_k.h"
#include "tensor/formats/q8_0.h"
#include "tensor/formats/tq1_0.h"
#include "tensor/formats/tq2_0.h"

namespace rocmforge::formats {

// Calls visit.operator()<Block>() and gives what it returns. REQUIRES: dtype is a weight type.
template <class Visit>
decltype(auto) with_format(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::f32:
      return visit.template operator()<PlainF32>();
    case DType::f16:
      return visit.template operator()<PlainF16>();
    case DType::bf16:
      return visit.template operator()<PlainBf16>();
    case DType::q1_0:
      return visit.template operator()<Q1_0>();
    case DType::q2_0:
      return visit.template operator()<Q2_0>();
    case DType::q4_0:
      return visit.template operator()<Q4_0>();
    case DType::q4_1:
      return visit.template operator()<Q4_1>();
    case DType::q5_0:
      return visit.template operator()<Q5_0>();
    case DType::q5_1:
      return visit.template operator()<Q5_1>();
    case DType::q8_0:
      return visit.template operator()<Q8_0>();
    case DType::q2_k:
      return visit.template operator()<Q2K>();
    case DType::q3_k:
      return visit.template operator()<Q3K>();
    case DType::q4_k:
      return visit.template operator()<Q4K>();
    case DType::q5_k:
      return visit.template operator()<Q5K>();
    case DType::q6_k:
      return visit.template operator()<Q6K>();
    case DType::iq1_s:
      return visit.template operator()<Iq1S>();
    case DType::iq1_m:
      return visit.template operator()<Iq1M>();
    case DType::iq2_xxs:
      return visit.template operator()<Iq2Xxs>();
    case DType::iq2_xs:
      return visit.template operator()<Iq2Xs>();
    case DType::iq2_s:
      return visit.template operator()<Iq2S>();
    case DType::iq3_xxs:
      return visit.template operator()<Iq3Xxs>();
    case DType::iq3_s:
      return visit.template operator()<Iq3S>();
    case DType::iq4_nl:
      return visit.template operator()<Iq4Nl>();
    case DType::iq4_xs:
      return visit.template operator()<Iq4Xs>();
    case DType::tq1_0:
      return visit.template operator()<Tq1_0>();
    case DType::tq2_0:
      return visit.template operator()<Tq2_0>();
    case DType::mxfp4:
      return visit.template operator()<Mxfp4>();
    case DType::nvfp4:
      return visit.template operator()<Nvfp4>();
    case DType::q8_1:
    case DType::q8_k:
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::i64:
    case DType::f64:
      break;
  }
  RF_UNREACHABLE("tensor: not a weight type");
}

}  // namespace rocmforge::formats
