#pragma once
// A 16 x 16 tile of a matrix product, held by one wave: C += A * B^T with k = 16, where A and B are tiles of F16 or
// Bf16 whose rows run along k. The portable matrix kernels use this interface alone.
//
//   Fragment<F16>::A a;   load_a(a, tile, stride);     16 rows, `stride` elements apart, 16 elements of each
//   Fragment<F16>::B b;   load_b(b, tile, stride);
//   Fragment<F16>::C c{}; multiply(c, a, b);           every lane of the wave takes part
//   c.v[i] is the element (row(i), column(i)), i < kPerLane
//
// The same for 32 columns, from packed tiles in the order kOrder (fragment/packed_tile.h):
//
//   Fragment<F16>::Operand a, b;   load(a, tile);   load(b, tile);   multiply(c, a, b);
//
// and with the second operand made in registers, without a tile. Of each of its 16 rows, kRowLanes lanes hold the four
// chunks of eight columns between them: lane row_lane() holds the chunks c with c % kRowLanes == row_lane(). A lane
// holds chunks of kLaneRows rows, lane_row(i). Nothing but the first operand's tile says which columns those are.
//
//   Fragment<F16>::Held b;   hold(b, i, j, chunk) for the lane's row i and its j-th chunk;   multiply(c, a, b);
//   c.v[i] is the element (held_row(i), held_column(i))
//
// Which lane holds what is the hardware's choice:
//
//   mma.h     NVIDIA, mma.sync m16n8k16 twice           mfma.h   AMD gfx908, gfx90a, gfx942: waves of 64
//   gfx11.h   AMD WMMA, A and B held twice              gfx12.h  AMD WMMA, each half wave half of k
//   none.h    no matrix instructions: multiply-adds (gfx906, gfx103x)
//
// The emulation compiles every kernel that uses fragments with each of the five.

#include "gpu/runtime.h"

#if defined(__CUDACC__)
#include "gpu/fragment/mma.h"
#elif defined(__GFX12__)
#include "gpu/fragment/gfx12.h"
#elif defined(__GFX11__)
#include "gpu/fragment/gfx11.h"
#elif defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__)
#include "gpu/fragment/mfma.h"
#elif defined(__HIP__)
#include "gpu/fragment/none.h"
#else
#include "gpu/fragment/gfx11.h"
#include "gpu/fragment/gfx12.h"
#include "gpu/fragment/mfma.h"
#include "gpu/fragment/mma.h"
#include "gpu/fragment/none.h"
#endif

namespace rocmforge::gpu::RF_KERNELS {

#if defined(__CUDACC__)
template <class T>
using Fragment = MmaFragment<T>;
#elif defined(__GFX12__)
template <class T>
using Fragment = Gfx12Fragment<T>;
#elif defined(__GFX11__)
template <class T>
using Fragment = Gfx11Fragment<T>;
#elif defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__)
template <class T>
using Fragment = MfmaFragment<T>;
#elif defined(__HIP__)
template <class T>
using Fragment = PlainFragment<T>;
#else
template <class T, emu::FragmentKind kKind>
struct EmulatedFragment;
template <class T>
struct EmulatedFragment<T, emu::FragmentKind::mma> : MmaFragment<T> {};
template <class T>
struct EmulatedFragment<T, emu::FragmentKind::gfx11> : Gfx11Fragment<T> {};
template <class T>
struct EmulatedFragment<T, emu::FragmentKind::gfx12> : Gfx12Fragment<T> {};
template <class T>
struct EmulatedFragment<T, emu::FragmentKind::mfma> : MfmaFragment<T> {};
template <class T>
struct EmulatedFragment<T, emu::FragmentKind::none> : PlainFragment<T> {};
template <class T>
using Fragment = EmulatedFragment<T, emu::FragmentKind::RF_EMU_FRAGMENT>;
#endif

}  // namespace rocmforge::gpu::RF_KERNELS
