#pragma once
// The codebooks of the IQ1, IQ2 and IQ3 formats (tensor/formats/iq_tables.h) as kernels use them: expanded at compile
// time, so that an entry's quants are bytes in place and a lookup is one load. docs/gpu.md says why they are read
// through the cache.
//
//   IQ2    8 bytes for 8 weights: magnitudes
//   IQ3    4 bytes for 4 weights: magnitudes
//   IQ1    4 bytes for 8 weights: codes 0, 1, 2 in nibbles; low nibbles are the first four weights

#include "gpu/runtime.h"
#include "tensor/formats/all.h"

namespace rocmforge::gpu::RF_KERNELS {

template <class T, int kEntries>
struct Codebook {
  static constexpr int kCount = kEntries;
  using Entry = T;
  T at[kEntries];
};

// expand(code): the entry of a code.
template <class T, int kEntries, class Expand>
RF_HOST_DEVICE constexpr Codebook<T, kEntries> codebook(const formats::Codes<kEntries>& codes, const Expand& expand) {
  Codebook<T, kEntries> out{};
  for (int i = 0; i < kEntries; i++) out.at[i] = static_cast<T>(expand(codes.at[i]));
  return out;
}

struct Iq2Entry {
  RF_HOST_DEVICE constexpr uint64_t operator()(uint32_t code) const { return formats::iq2_magnitudes(code); }
};
struct Iq3XxsEntry {
  RF_HOST_DEVICE constexpr uint64_t operator()(uint32_t code) const { return formats::iq3_xxs_magnitudes(code, 0); }
};
struct Iq3SEntry {
  RF_HOST_DEVICE constexpr uint64_t operator()(uint32_t code) const { return formats::iq3_s_magnitudes(code, 0); }
};
struct Iq1Entry {
  RF_HOST_DEVICE constexpr uint64_t operator()(uint32_t code) const {
    const uint64_t bytes = formats::spread_8x2(code);
    return (bytes & 0xFFFFFFFFu) | bytes >> 32 << 4;
  }
};

RF_DEVICE uint64_t iq2_xxs_entry(uint32_t index) {  // index < 256
  static constexpr auto kBook = codebook<uint64_t>(formats::kIq2XxsCodes, Iq2Entry());
  return kBook.at[index];
}
RF_DEVICE uint64_t iq2_xs_entry(uint32_t index) {  // index < 512
  static constexpr auto kBook = codebook<uint64_t>(formats::kIq2XsCodes, Iq2Entry());
  return kBook.at[index];
}
RF_DEVICE uint64_t iq2_s_entry(uint32_t index) {  // index < 1024
  static constexpr auto kBook = codebook<uint64_t>(formats::kIq2SCodes, Iq2Entry());
  return kBook.at[index];
}
RF_DEVICE uint32_t iq3_xxs_entry(uint32_t index) {  // index < 256
  static constexpr auto kBook = codebook<uint32_t>(formats::kIq3XxsCodes, Iq3XxsEntry());
  return kBook.at[index];
}
RF_DEVICE uint32_t iq3_s_entry(uint32_t index) {  // index < 512
  static constexpr auto kBook = codebook<uint32_t>(formats::kIq3SCodes, Iq3SEntry());
  return kBook.at[index];
}
RF_DEVICE uint32_t iq1_entry(uint32_t index) {  // index < 2048
  static constexpr auto kBook = codebook<uint32_t>(formats::kIq1Codes, Iq1Entry());
  return kBook.at[index];
}

}  // namespace rocmforge::gpu::RF_KERNELS
