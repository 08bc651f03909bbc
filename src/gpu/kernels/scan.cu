// Selective scans, row by row.

#include "gpu/runtime.h"

#include "gpu/kernels/walk.h"

namespace rocmforge::gpu::RF_KERNELS {

// What scans by head and by element have in common.
template <uint32_t kPer>
struct ScanWalk {
  static constexpr uint32_t kState = LaneStates<kPer>::kElements;

  const ScanArgs& args;
  const WalkPlace place;
  const float *inputs, *writers, *readers;  // x, b and c of the run's first row
  uint64_t state_at;
  LaneStates<kPer> states;
  RowGroup<kState> next_b, next_c;
  RowGroup<kWalkColumns> next_x;

  RF_DEVICE explicit ScanWalk(const ScanArgs& all) : args(all), place(all.states, all.head_size) {
    const uint32_t group = place.head / (args.n_heads / args.n_groups);
    inputs = row(args.x) + place.column(args.head_size);
    writers = row(args.b) + group * args.state_size;
    readers = row(args.c) + group * args.state_size;
    state_at = static_cast<uint64_t>(place.head) * args.state_size * args.head_size + place.first_column;
  }
  RF_DEVICE const float* row(const RowColumns& of) const {
    return of.first + static_cast<uint64_t>(place.run.first_row) * of.width;
  }

  RF_DEVICE void begin_states() {
    states.load(place.before(args.states, state_at), args.head_size, args.state_size, place.n_columns);
  }
  RF_DEVICE void end() {
    states.store(place.after(args.states, state_at), args.head_size, args.state_size, place.n_columns);
  }
  RF_DEVICE void load_rows(uint32_t first, uint32_t n_rows) {
    next_x.load(inputs + static_cast<uint64_t>(first) * args.x.width, args.x.width, n_rows, place.n_columns);
    next_b.load(writers + static_cast<uint64_t>(first) * args.b.width, args.b.width, n_rows, args.state_size);
    next_c.load(readers + static_cast<uint64_t>(first) * args.c.width, args.c.width, n_rows, args.state_size);
  }
  RF_DEVICE void store(uint32_t row_of_run, uint32_t column, float value) const {
    if (states.slice() != 0 || column >= place.n_columns) return;
    const uint64_t at = static_cast<uint64_t>(place.run.first_row + row_of_run) * args.n_heads * args.head_size;
    args.out[at + place.column(args.head_size) + column] = value;
  }
};

template <uint32_t kPer>
struct HeadScan : ScanWalk<kPer> {
  using Base = ScanWalk<kPer>;
  using Base::args, Base::place, Base::states;
  struct Shared {
    alignas(16) float b[kGroupRows][Base::kState];
    alignas(16) float c[kGroupRows][Base::kState];
    float x[kGroupRows][kWalkColumns];
    float size[kGroupRows], decay[kGroupRows];  // of the row's step
  };
  float next_step = 0;  // of the row that this thread prepares
  float skip = 0;

  RF_DEVICE explicit HeadScan(const ScanArgs& all) : Base(all) {}

  RF_DEVICE void begin() {
    this->begin_states();
    skip = args.skip[place.head];
  }
  RF_DEVICE void load(uint32_t first, uint32_t n_rows) {
    this->load_rows(first, n_rows);
    const uint32_t row = thread_index();
    next_step =
        row < n_rows ? this->row(args.step)[static_cast<uint64_t>(first + row) * args.step.width + place.head] : 0;
  }
  RF_DEVICE void put(Shared& shared) const {
    this->next_x.put(shared.x);
    this->next_b.put(shared.b);
    this->next_c.put(shared.c);
    if (thread_index() >= kGroupRows) return;
    const float size = softplus(next_step + args.step_bias[place.head]);
    shared.size[thread_index()] = size;
    shared.decay[thread_index()] = exp_f32(size * args.decay[place.head]);
  }
  RF_DEVICE void prepare(Shared&) const {}

  RF_DEVICE void advance(const Shared& shared, uint32_t r, uint32_t row) {
    const float size = shared.size[r], decay = shared.decay[r];
    float x[kLaneColumns], in[kLaneColumns], sum[kLaneColumns] = {};
    RF_UNROLL
    for (uint32_t c = 0; c < kLaneColumns; c++) {
      x[c] = shared.x[r][states.column() + c];
      in[c] = x[c] * size;
    }
    RF_UNROLL
    for (uint32_t e = 0; e < kPer; e++) {
      const float writes = shared.b[r][states.element(e)], reads = shared.c[r][states.element(e)];
      RF_UNROLL
      for (uint32_t c = 0; c < kLaneColumns; c++) {
        float& s = states.s[c][e];
        s = fma_f32(writes, in[c], s * decay);
        sum[c] = fma_f32(s, reads, sum[c]);
      }
    }
    RF_UNROLL
    for (uint32_t c = 0; c < kLaneColumns; c++) {
      this->store(row, states.column() + c, fma_f32(x[c], skip, slices_sum(sum[c])));
    }
  }
};

template <uint32_t kPer>
struct ElementScan : ScanWalk<kPer> {
  using Base = ScanWalk<kPer>;
  using Base::args, Base::place, Base::states;
  struct Shared {
    alignas(16) float b[kGroupRows][Base::kState];
    alignas(16) float c[kGroupRows][Base::kState];
    float x[kGroupRows][kWalkColumns];
    float size[kGroupRows][kWalkColumns];  // of steps
  };
  RowGroup<kWalkColumns> next_step;
  float decay[kLaneColumns][kPer];
  float skip[kLaneColumns];

  RF_DEVICE explicit ElementScan(const ScanArgs& all) : Base(all) {}

  RF_DEVICE void begin() {
    this->begin_states();
    const uint32_t first = place.column(args.head_size);
    RF_UNROLL
    for (uint32_t c = 0; c < kLaneColumns; c++) {
      const uint32_t column = states.column() + c;
      const bool is_there = column < place.n_columns;
      skip[c] = is_there ? args.skip[first + column] : 0.0f;
      RF_UNROLL
      for (uint32_t e = 0; e < kPer; e++) {
        const uint32_t element = states.element(e);
        decay[c][e] = is_there && element < args.state_size
                          ? args.decay[static_cast<uint64_t>(first + column) * args.state_size + element]
                          : 0.0f;
      }
    }
  }
  RF_DEVICE void load(uint32_t first, uint32_t n_rows) {
    this->load_rows(first, n_rows);
    next_step.load(this->row(args.step) + static_cast<uint64_t>(first) * args.step.width + place.column(args.head_size),
                   args.step.width, n_rows, place.n_columns);
  }
  RF_DEVICE void put(Shared& shared) const {
    this->next_x.put(shared.x);
    this->next_b.put(shared.b);
    this->next_c.put(shared.c);
    next_step.put(shared.size);
  }
  // Each thread what it has put.
  RF_DEVICE void prepare(Shared& shared) const {
    for (uint32_t at = thread_index(); at < kGroupRows * kWalkColumns; at += kWalkThreads) {
      const uint32_t column = at % kWalkColumns;
      if (column >= place.n_columns) continue;
      float& size = shared.size[at / kWalkColumns][column];
      size = softplus(size + args.step_bias[place.column(args.head_size) + column]);
    }
    sync_block();
  }

  RF_DEVICE void advance(const Shared& shared, uint32_t r, uint32_t row) {
    float x[kLaneColumns], size[kLaneColumns], in[kLaneColumns], sum[kLaneColumns] = {};
    RF_UNROLL
    for (uint32_t c = 0; c < kLaneColumns; c++) {
      x[c] = shared.x[r][states.column() + c];
      size[c] = shared.size[r][states.column() + c];
      in[c] = x[c] * size[c];
    }
    RF_UNROLL
    for (uint32_t e = 0; e < kPer; e++) {
      const float writes = shared.b[r][states.element(e)], reads = shared.c[r][states.element(e)];
      RF_UNROLL
      for (uint32_t c = 0; c < kLaneColumns; c++) {
        float& s = states.s[c][e];
        s = fma_f32(writes, in[c], s * exp_f32(size[c] * decay[c][e]));
        sum[c] = fma_f32(s, reads, sum[c]);
      }
    }
    RF_UNROLL
    for (uint32_t c = 0; c < kLaneColumns; c++) {
      this->store(row, states.column() + c, fma_f32(x[c], skip[c], slices_sum(sum[c])));
    }
  }
};

#define RF_SCAN(name, Scan, size)                    \
  RF_KERNEL(name, ScanArgs, kWalkThreads) {          \
    RF_SHARED(Scan<size / kSlices>::Shared, shared); \
    Scan<size / kSlices> of(args);                   \
    walk(of, shared);                                \
  }
RF_SCAN(scan_head_128, HeadScan, 128)
RF_SCAN(scan_head_256, HeadScan, 256)
RF_SCAN(scan_element_16, ElementScan, 16)
RF_SCAN(scan_element_64, ElementScan, 64)

}  // namespace rocmforge::gpu::RF_KERNELS
