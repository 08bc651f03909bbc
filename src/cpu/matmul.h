#pragma once
// Products of weights and rows of activations: prepares the inputs once, splits the weights' rows over the workers.
// Never the sums: an output is computed by one thread, in its kernel's order.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cpu/isa/kernels.h"
#include "cpu/weight.h"
#include "cpu/workers.h"

namespace rocmforge::cpu {

// One matrix times some of the prepared inputs.
struct Product {
  Weight weight;
  const float* bias = nullptr;     // n_rows, or none
  std::span<const uint32_t> rows;  // which inputs; empty: all, in order
  std::span<float* const> out;     // where each one's product goes
};

// Rows [first, first + n) of a product, the first of which goes to out[t][out_row].
// REQUIRES: whole units, or up to the last row
struct RowRange {
  uint64_t first = 0;
  uint64_t n = 0;
  uint64_t out_row = 0;
};

class Multiplier {
 public:
  Multiplier(const Kernels& kernels, Workers& workers) : kernels_(kernels), workers_(workers) {}

  // Working memory for inputs up to this width, in place of what there was; capacity counts inputs of that width.
  static uint64_t workspace_bytes(size_t n_threads, uint32_t max_width, uint32_t capacity);
  void reserve(uint32_t max_width, uint32_t capacity);

  // Inputs of this width that can be prepared at once, at least one. REQUIRES: width <= max_width
  uint32_t max_inputs(uint32_t width) const;

  // Takes the inputs of the products to come, row r at in[r]. `make`, if any, is called once for every row before it is
  // used, on any thread.
  // REQUIRES: in.size() <= max_inputs(width); the floats stay until the products are done
  using MakeRow = std::function<void(size_t r)>;
  void prepare(std::span<const float* const> in, uint32_t width, MakeRow make = {});

  // All products, split over the workers.
  void multiply(std::span<const Product> products);

  // The inputs in the form that this weight asks for; multiply() does it by itself.
  void prepare_for(const Weight& weight);
  // Rows of a product, on this thread. REQUIRES: prepare_for() its weight
  void multiply_rows(const Product& product, const RowRange& range, size_t worker);

 private:
  struct Scratch {
    std::vector<float> rows;  // decoded
    std::vector<const float*> in;
    std::vector<const void*> prepared;
  };
  std::vector<const void*>& prepared(InputForm form) { return prepared_[static_cast<size_t>(form)]; }
  void multiply_packed(const Product& product, const RowRange& range, size_t worker);
  void multiply_plain(const Product& product, const RowRange& range, size_t worker);

  const Kernels& kernels_;
  Workers& workers_;
  std::vector<QuantBlock> blocks_;
  std::vector<uint16_t> halves_;  // none until they are needed
  std::vector<const float*> in_;
  MakeRow make_;                                    // none: the inputs are there
  std::vector<const void*> prepared_[kInputForms];  // where each input is in a form; empty: not prepared
  std::vector<Scratch> scratch_;                    // by worker
  uint32_t max_width_ = 0;
  uint32_t width_ = 0;
};

}  // namespace rocmforge::cpu
