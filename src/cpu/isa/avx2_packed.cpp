// Packed weights in AVX2: every format of packed_list.h.

#include "cpu/isa/avx2.h"
#include "cpu/isa/avx2_terms.h"
#include "cpu/isa/packed_list.h"

namespace rocmforge::cpu {

constexpr PackedFormat avx2_packed_formats[kPackedFormats] = RF_PACKED_FORMATS(Avx2);

}  // namespace rocmforge::cpu
