// Vector instructions of 32-bit floats, and conversions to and from them.
//
// v_rcp, v_rsq, v_sqrt, v_exp, v_log, v_sin and v_cos are the host's: hardware's are good to about 1 ulp.

#include "gpu/isa/float_rules.h"
#include "gpu/isa/lanes.h"

namespace rocmforge::gpu::isa {
namespace {

using U = uint32_t;

// The largest result is the largest float below 1.
float fraction(float v) {
  return std::isinf(v) ? v - v : std::fmin(v - std::floor(v), 0x1.fffffep-1f);
}
float middle(float a, float b, float c) {
  if (std::isnan(a) || std::isnan(b) || std::isnan(c)) return smallest(smallest(a, b), c);
  return largest(smallest(a, b), smallest(largest(a, b), c));
}
template <uint32_t kByte>
float byte_of(U a) {
  return static_cast<float>(a >> 8 * kByte & 255);
}

void v_cvt_f16_f32(Wave& w, const Instruction& i) {
  for (U h = 0; h < w.n_halves; h++) {
    Lanes ra;
    const U* a = w.lanes(i.o[1], h, ra);
    U* to = w.reg(i.o[0].index, h);
    put(w, h, to, [&](U l) { return with_low(w, to[l], f32_to_f16(finish(i, f32(a[l])))); });
  }
}
void v_cvt_f32_f16(Wave& w, const Instruction& i) {
  for (U h = 0; h < w.n_halves; h++) {
    Lanes ra;
    // Signs are of the half that is taken.
    Operand plain = i.o[1];
    plain.neg = plain.abs = false;
    const U* a = w.lanes(plain, h, ra);
    const U shift = (i.op_sel & 1) != 0 ? 16 : 0;
    put(w, h, w.reg(i.o[0].index, h), [&](U l) {
      float v = f16_to_f32(a[l] >> shift);
      if (i.o[1].abs) v = std::fabs(v);
      return b32(finish(i, i.o[1].neg ? -v : v));
    });
  }
}
void v_ldexp_f32(Wave& w, const Instruction& i) {
  for (U h = 0; h < w.n_halves; h++) {
    Lanes ra, rb;
    const U *a = w.lanes(i.o[1], h, ra), *b = w.lanes(i.o[2], h, rb);
    put(w, h, w.reg(i.o[0].index, h), [&](U l) { return b32(finish(i, std::ldexp(f32(a[l]), as_signed(b[l])))); });
  }
}

// dst = a * b + c, where op_sel_hi says which are halves and op_sel which halves; rounded to a half of the destination
// where one is named.
enum class MixInto : uint8_t { all, low, high };
template <MixInto kInto>
void v_fma_mix(Wave& w, const Instruction& i) {
  for (U h = 0; h < w.n_halves; h++) {
    float in[3][kHalf];
    for (U k = 0; k < 3; k++) {
      Operand plain = i.o[k + 1];
      plain.neg = plain.abs = false;
      Lanes room;
      const U* a = w.lanes(plain, h, room);
      const bool is_half = (i.op_sel_hi >> k & 1) != 0, is_upper = (i.op_sel >> k & 1) != 0;
      for (U l = 0; l < kHalf; l++) {
        float x = !is_half ? f32(a[l]) : f16_to_f32(is_upper ? a[l] >> 16 : a[l]);
        if (i.o[k + 1].abs) x = std::fabs(x);
        in[k][l] = i.o[k + 1].neg ? -x : x;
      }
    }
    U* to = w.reg(i.o[0].index, h);
    if constexpr (kInto != MixInto::all) {
      // A double holds the product, and its sum but for the last bits: rounded twice only where a half could hardly
      // tell.
      put(w, h, to, [&](U l) {
        const double sum = std::fma(static_cast<double>(in[0][l]), static_cast<double>(in[1][l]), in[2][l]);
        const U half = std::bit_cast<uint16_t>(static_cast<_Float16>(sum));
        return kInto == MixInto::low ? (to[l] & 0xFFFF0000u) | half : (to[l] & 0xFFFFu) | half << 16;
      });
    } else {
      put(w, h, to, [&](U l) { return b32(finish(i, std::fma(in[0][l], in[1][l], in[2][l]))); });
    }
  }
}

}  // namespace

void add_floats(Table& t) {
  t["v_add_f32"] = kFloat2<([](float a, float b) { return a + b; })>;
  t["v_sub_f32"] = kFloat2<([](float a, float b) { return a - b; })>;
  t["v_subrev_f32"] = kFloat2<([](float a, float b) { return b - a; })>;
  t["v_mul_f32"] = kFloat2<([](float a, float b) { return a * b; })>;
  t["v_max_f32"] = t["v_max_num_f32"] = kFloat2<largest>;
  t["v_min_f32"] = t["v_min_num_f32"] = kFloat2<smallest>;
  constexpr auto fma = [](float a, float b, float c) { return std::fma(a, b, c); };
  // Where a literal is a factor or the sum, it is printed in its place.
  t["v_fma_f32"] = t["v_fmaak_f32"] = t["v_fmamk_f32"] = kFloat3<fma>;
  // Rounds twice, without denormals: clang uses it in divisions of integers.
  constexpr auto mad = [](float a, float b, float c) { return flushed(flushed(flushed(a) * flushed(b)) + flushed(c)); };
  t["v_mac_f32"] = {floats<mad, 2, true>, kOutputModifiers};
  t["v_madmk_f32"] = t["v_madak_f32"] = kFloat3<mad>;
  t["v_fmac_f32"] = {floats<fma, 2, true>, kOutputModifiers};
  t["v_rcp_f32"] = t["v_rcp_iflag_f32"] = kFloat1<([](float a) { return 1.0f / a; })>;
  t["v_rsq_f32"] = kFloat1<([](float a) { return 1.0f / std::sqrt(a); })>;
  t["v_sqrt_f32"] = kFloat1<([](float a) { return std::sqrt(a); })>;
  t["v_exp_f32"] = kFloat1<([](float a) { return std::exp2(a); })>;
  t["v_log_f32"] = kFloat1<([](float a) { return std::log2(a); })>;
  t["v_sin_f32"] = kFloat1<([](float a) { return static_cast<float>(std::sin(6.283185307179586 * a)); })>;
  t["v_cos_f32"] = kFloat1<([](float a) { return static_cast<float>(std::cos(6.283185307179586 * a)); })>;
  t["v_trunc_f32"] = kFloat1<([](float a) { return std::trunc(a); })>;
  t["v_floor_f32"] = kFloat1<([](float a) { return std::floor(a); })>;
  t["v_ceil_f32"] = kFloat1<([](float a) { return std::ceil(a); })>;
  t["v_rndne_f32"] = kFloat1<([](float a) { return std::nearbyint(a); })>;
  t["v_fract_f32"] = kFloat1<fraction>;
  t["v_max3_f32"] = kFloat3<([](float a, float b, float c) { return largest(largest(a, b), c); })>;
  t["v_min3_f32"] = kFloat3<([](float a, float b, float c) { return smallest(smallest(a, b), c); })>;
  t["v_med3_f32"] = t["v_med3_num_f32"] = kFloat3<middle>;
  t["v_ldexp_f32"] = {v_ldexp_f32, kOutputModifiers};
  t["v_cvt_f32_i32"] = kWord1<([](U a) { return b32(static_cast<float>(as_signed(a))); })>;
  t["v_cvt_f32_u32"] = kWord1<([](U a) { return b32(static_cast<float>(a)); })>;
  t["v_cvt_i32_f32"] = kWord1<([](U a) { return to_i32(f32(a)); })>;
  t["v_cvt_u32_f32"] = kWord1<([](U a) { return to_u32(f32(a)); })>;
  t["v_cvt_f32_ubyte0"] = kWord1<([](U a) { return b32(byte_of<0>(a)); })>;
  t["v_cvt_f32_ubyte1"] = kWord1<([](U a) { return b32(byte_of<1>(a)); })>;
  t["v_cvt_f32_ubyte2"] = kWord1<([](U a) { return b32(byte_of<2>(a)); })>;
  t["v_cvt_f32_ubyte3"] = kWord1<([](U a) { return b32(byte_of<3>(a)); })>;
  t["v_cvt_f16_f32"] = {v_cvt_f16_f32, kOutputModifiers | kSdwa};
  t["v_cvt_f32_f16"] = {v_cvt_f32_f16, kOutputModifiers | kHalves | kSdwa};
  t["v_fma_mix_f32"] = {v_fma_mix<MixInto::all>, kPacked | kOutputModifiers};
  t["v_fma_mixlo_f16"] = {v_fma_mix<MixInto::low>, kPacked};
  t["v_fma_mixhi_f16"] = {v_fma_mix<MixInto::high>, kPacked};
}

}  // namespace rocmforge::gpu::isa
