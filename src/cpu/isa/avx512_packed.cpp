// Packed weights in AVX-512: every format of packed_list.h.

#include "cpu/isa/avx512.h"
#include "cpu/isa/avx512_terms.h"
#include "cpu/isa/packed_list.h"

namespace rocmforge::cpu {

constexpr PackedFormat avx512_packed_formats[kPackedFormats] = RF_PACKED_FORMATS(Avx512);

}  // namespace rocmforge::cpu
