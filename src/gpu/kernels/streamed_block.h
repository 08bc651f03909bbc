#pragma once
// What a block multiplies with weights that its waves decode in registers (kernels/streamed_units.h): up to 16 kTiles
// rows by sixteen outputs of each wave. The order of a sum depends on neither the rows nor the grid.

#include "gpu/kernels/stream_fragments.h"
#include "gpu/kernels/streamed_units.h"

namespace rocmforge::gpu::RF_KERNELS {

// A block copies the inputs of a step to shared memory at once: those of a round, or of half a round where that is too
// much.
template <class Block, uint32_t kTiles>
struct StreamedSteps {
  static constexpr uint32_t kRoundTiles = StreamedUnits<Block>::kRoundTiles;
  static constexpr uint32_t kTilesAtOnce = kTiles == 1 ? kRoundTiles : 4;
  static constexpr uint32_t kOfRound = kRoundTiles / kTilesAtOnce;
};
template <class Block, uint32_t kTiles>
using StreamedInputs = Word4[kCopyBuffers][StreamedSteps<Block, kTiles>::kTilesAtOnce][kTiles][kPackedChunks];

// Copies the inputs of steps from panels in the order tiles_by_column. A thread copies the same chunk of each tile.
template <class Block, uint32_t kTiles>
struct InputSource {
  using Units = StreamedUnits<Block>;
  using Steps = StreamedSteps<Block, kTiles>;
  using Inputs = StreamedInputs<Block, kTiles>;
  static constexpr uint32_t kTilesOfThreads = kStreamFragmentsThreads / kPackedChunks;
  static constexpr uint32_t kPerThread = Steps::kTilesAtOnce / kTilesOfThreads;
  const Word4* panels;
  uint32_t n_chunks;      // of a row
  uint32_t rows[kTiles];  // the first chunk of the thread's row in each tile
  uint32_t columns[Steps::kOfRound][kPerThread];
  CopyAhead<kPerThread * kTiles> copy = {};

  // row_of(line): the row of the panels that is this line of the block
  template <class RowOf>
  RF_DEVICE InputSource(const uint8_t* inputs, uint32_t width, const RowOf& row_of)
      : panels(reinterpret_cast<const Word4*>(inputs)), n_chunks(width / 8) {
    constexpr bool kByRow = Fragment<F16>::kOrder == TileOrder::by_row;
    const uint32_t at = thread_index() % kPackedChunks;
    const uint32_t line = kByRow ? at / 4 : at % 16, c = kByRow ? at % 4 : at / 16;
    RF_UNROLL
    for (uint32_t i = 0; i < kTiles; i++) {
      const uint32_t row = row_of(i * kPackedRows + line);
      rows[i] = row / kPackedRows * n_chunks * kPackedRows + row % kPackedRows;
    }
    RF_UNROLL
    for (uint32_t s = 0; s < Steps::kOfRound; s++) {
      RF_UNROLL
      for (uint32_t k = 0; k < kPerThread; k++) columns[s][k] = Units::columns(s * Steps::kTilesAtOnce + tile(k), c);
    }
  }
  // The thread's k-th tile of a step.
  RF_DEVICE static uint32_t tile(uint32_t k) { return k * kTilesOfThreads + thread_index() / kPackedChunks; }
  RF_DEVICE static Word4* place(Inputs& to, uint32_t step, uint32_t k, uint32_t i) {
    return &to[step % kCopyBuffers][tile(k)][i][thread_index() % kPackedChunks];
  }
  // step_of_round: step % kOfRound, known at compile time
  RF_DEVICE void begin(Inputs& to, uint32_t step, uint32_t round, uint32_t step_of_round) {
    RF_UNROLL
    for (uint32_t k = 0; k < kPerThread; k++) {
      const uint32_t wanted = round * Units::kRoundChunks + columns[step_of_round][k];
      const uint32_t chunk = !Units::kMayEndWithinRound || wanted < n_chunks ? wanted : n_chunks - 1;
      RF_UNROLL
      for (uint32_t i = 0; i < kTiles; i++) {
        copy.begin(k * kTiles + i, place(to, step, k, i), panels + (rows[i] + chunk * kPackedRows));
      }
    }
  }
  RF_DEVICE void land(Inputs& to, uint32_t step) {
    copy.wait();
    RF_UNROLL
    for (uint32_t k = 0; k < kPerThread; k++) {
      RF_UNROLL
      for (uint32_t i = 0; i < kTiles; i++) copy.land(k * kTiles + i, place(to, step, k, i));
    }
  }
};

// The weights of a wave's outputs.
struct StreamedWeights {
  Planes w;
  uint32_t n_out, first_out;  // of the block
  uint32_t width;
};

template <uint32_t kTiles>
struct StreamedSums {
  using F = Fragment<F16>;
  typename F::C sums[kTiles] = {};

  // Adds the products of some rounds.
  template <class Block>
  RF_DEVICE void add(StreamedInputs<Block, kTiles>& inputs, InputSource<Block, kTiles>& source,
                     const StreamedWeights& weights, uint32_t first_round, uint32_t end_round) {
    using Units = StreamedUnits<Block>;
    using Steps = StreamedSteps<Block, kTiles>;
    uint64_t rows[F::kLaneRows];
    RF_UNROLL
    for (uint32_t r = 0; r < F::kLaneRows; r++) {
      const uint32_t out = weights.first_out + wave() * kPackedRows + F::lane_row(r);
      rows[r] = out < weights.n_out ? out : weights.n_out - 1;
    }
    LaneUnits<Block> units{weights.w, rows, weights.width / 16 / Units::U::kGroups, end_round};
    RF_UNROLL
    for (uint32_t i = 0; i < Units::kLaneUnits; i++) units.load(first_round, i);
    const uint32_t n_steps = (end_round - first_round) * Steps::kOfRound;
    const auto begin = [&](uint32_t step, uint32_t step_of_round) {
      if (step < n_steps) source.begin(inputs, step, first_round + step / Steps::kOfRound, step_of_round);
      source.copy.commit();
    };
    RF_UNROLL
    for (uint32_t step = 0; step + 1 < kCopyBuffers; step++) begin(step, step % Steps::kOfRound);
    for (uint32_t round = first_round, step = 0; round < end_round; round++) {
      units.begin_round(round);
      Decoder<Block> decoder;
      RF_UNROLL
      for (uint32_t s = 0; s < Steps::kOfRound; s++, step++) {
        source.land(inputs, step);
        sync_block();
        begin(step + kCopyBuffers - 1, (s + kCopyBuffers - 1) % Steps::kOfRound);
        RF_UNROLL
        for (uint32_t t = 0; t < Steps::kTilesAtOnce; t++) {
          keep_order();  // AMD's compiler would decode all tiles first: more than there are registers
          const uint32_t tile = s * Steps::kTilesAtOnce + t;
          typename F::Held held;
          decoder.decode(held, units, tile, round);
          units.end_tile(tile, round);
          multiply(inputs[step % kCopyBuffers][t], held);
        }
      }
    }
  }
  RF_DEVICE void multiply(const Word4 (&inputs)[kTiles][kPackedChunks], const typename F::Held& weights) {
    RF_UNROLL
    for (uint32_t i = 0; i < kTiles; i++) {
      typename F::Operand of_tile;
      F::load(of_tile, inputs[i]);
      F::multiply(sums[i], of_tile, weights);
      keep_here(sums[i].v);
    }
  }

  // use(i, sum) for each sum of this lane, in order.
  template <class Use>
  RF_DEVICE void each(const Use& use) {
    RF_UNROLL
    for (uint32_t i = 0; i < kTiles; i++) {
      RF_UNROLL
      for (uint32_t e = 0; e < F::kPerLane; e++) use(i * F::kPerLane + e, sums[i].v[e]);
    }
  }
  // store(line, output, sum) for each: lines and outputs counted within the block.
  template <class Store>
  RF_DEVICE void each_place(const Store& store) {
    each([&](uint32_t i, float sum) {
      const uint32_t e = i % F::kPerLane;
      store(i / F::kPerLane * kPackedRows + F::held_row(e), wave() * kPackedRows + F::held_column(e), sum);
    });
  }
};

}  // namespace rocmforge::gpu::RF_KERNELS
