#include "cpu/matmul.h"

#include <algorithm>

#include "base/check.h"
#include "tensor/packed.h"

namespace rocmforge::cpu {
namespace {

// Rows decoded at a time: enough independent sums for the float kernels.
constexpr size_t kDecodedRows = 4;

// Bytes of prepared inputs that one pass over a worker's rows uses again and again: they stay in its second cache.
constexpr size_t kInputBytes = 256 << 10;

// Enough pieces of equal size that no worker waits long for the last one.
constexpr size_t kPiecesPerThread = 6;

// Of kMaxPackedRows rows, the last perhaps of fewer.
uint64_t n_units(const Product& product) {
  return (product.weight.shape.n_rows + kMaxPackedRows - 1) / kMaxPackedRows;
}

size_t n_blocks(uint32_t width) {
  return (width + kQuantElements - 1) / kQuantElements;
}

// Bytes of a prepared input.
size_t input_bytes(InputForm form, uint32_t width) {
  switch (form) {
    case InputForm::floats:
      return width * sizeof(float);
    case InputForm::bf16:
      return width * sizeof(uint16_t);
    case InputForm::blocks:
      return n_blocks(width) * sizeof(QuantBlock);
  }
  RF_UNREACHABLE("a form that is none");
}

// The elements of `all` that `rows` names, or all of them.
template <class T>
std::span<const T> choose(std::vector<T>& space, const std::vector<T>& all, std::span<const uint32_t> rows) {
  if (rows.empty()) return all;
  space.clear();
  for (const uint32_t r : rows) space.push_back(all[r]);
  return space;
}

}  // namespace

uint64_t Multiplier::workspace_bytes(size_t n_threads, uint32_t max_width, uint32_t capacity) {
  const uint64_t n = uint64_t{capacity} * n_blocks(max_width);
  return n * sizeof(QuantBlock) + n * kQuantElements * sizeof(uint16_t) +
         uint64_t{n_threads} * kDecodedRows * max_width * sizeof(float);
}

void Multiplier::reserve(uint32_t max_width, uint32_t capacity) {
  max_width_ = max_width;
  blocks_ = std::vector<QuantBlock>(capacity * n_blocks(max_width));
  halves_ = {};
  scratch_ = std::vector<Scratch>(workers_.n_threads());
  for (Scratch& scratch : scratch_) scratch.rows.resize(kDecodedRows * max_width);
}

uint32_t Multiplier::max_inputs(uint32_t width) const {
  CHECK(width <= max_width_);
  return static_cast<uint32_t>(std::max<size_t>(1, blocks_.size() / n_blocks(width)));
}

void Multiplier::prepare(std::span<const float* const> in, uint32_t width, MakeRow make) {
  CHECK(in.size() <= max_inputs(width));
  width_ = width;
  in_.assign(in.begin(), in.end());
  make_ = std::move(make);
  for (auto& places : prepared_) places.clear();
}

void Multiplier::prepare_for(const Weight& weight) {
  const InputForm form = weight.format != nullptr ? weight.format->input : InputForm::floats;
  auto& places = prepared(form);
  if (!places.empty()) return;
  const auto each_row = [&](auto&& convert) {
    workers_.run(in_.size(), [&](size_t r, size_t) {
      if (make_) make_(r);
      convert(r);
    });
    make_ = {};
  };
  const size_t n = n_blocks(width_);
  CHECK(weight.format == nullptr || width_ % kQuantElements == 0);
  switch (form) {
    case InputForm::floats:
      places.assign(in_.begin(), in_.end());
      if (make_) each_row([](size_t) {});
      break;
    case InputForm::bf16:
      halves_.resize(blocks_.size() * kQuantElements);
      for (size_t r = 0; r < in_.size(); r++) places.push_back(halves_.data() + r * width_);
      each_row([&](size_t r) { kernels_.to_bf16(&halves_[r * width_], in_[r], width_); });
      break;
    case InputForm::blocks:
      for (size_t r = 0; r < in_.size(); r++) places.push_back(blocks_.data() + r * n);
      each_row([&](size_t r) { kernels_.quantize(&blocks_[r * n], in_[r], n); });
      break;
  }
}

void Multiplier::multiply(std::span<const Product> products) {
  uint64_t n_all = 0;
  for (const Product& product : products) {
    prepare_for(product.weight);
    n_all += n_units(product);
  }
  const uint64_t n_pieces = workers_.n_threads() == 1 ? 1 : std::min(n_all, workers_.n_threads() * kPiecesPerThread);
  workers_.run(n_pieces, [&](size_t i, size_t worker) {
    // Units of all products, one behind the other.
    uint64_t begin = n_all * i / n_pieces, end = n_all * (i + 1) / n_pieces;
    for (const Product& product : products) {
      const uint64_t n = n_units(product);
      if (begin < std::min(n, end)) {
        const uint64_t first = begin * kMaxPackedRows;
        const uint64_t n_rows = std::min(end * kMaxPackedRows, product.weight.shape.n_rows) - first;
        multiply_rows(product, {first, n_rows, first}, worker);
      }
      begin -= std::min(n, begin);
      end -= std::min(n, end);
    }
  });
}

void Multiplier::multiply_rows(const Product& product, const RowRange& range, size_t worker) {
  CHECK(product.weight.shape.row_elements == width_);
  CHECK(product.out.size() == (product.rows.empty() ? in_.size() : product.rows.size()));
  const uint64_t end = range.first + range.n;
  const uint64_t packed_end = std::clamp(product.weight.n_packed_rows(), range.first, end);
  if (range.first < packed_end) {
    multiply_packed(product, {range.first, packed_end - range.first, range.out_row}, worker);
  }
  if (packed_end < end) {
    multiply_plain(product, {packed_end, end - packed_end, range.out_row + packed_end - range.first}, worker);
  }
  if (product.bias == nullptr) return;
  for (float* out : product.out) kernels_.add(out + range.out_row, product.bias + range.first, range.n);
}

void Multiplier::multiply_packed(const Product& product, const RowRange& range, size_t worker) {
  const Weight& weight = product.weight;
  const uint64_t unit_rows = weight.format->n_rows;
  CHECK(range.first % unit_rows == 0 && range.n % unit_rows == 0);
  const InputForm form = weight.format->input;
  const auto in = choose(scratch_[worker].prepared, prepared(form), product.rows);
  const PackedUnits units = {weight.row(range.first), range.n / unit_rows, weight.n_groups()};
  const size_t tile = std::max<size_t>(8, kInputBytes / input_bytes(form, width_) / 8 * 8);
  for (size_t t = 0; t < in.size(); t += tile) {
    weight.format->matmul(units, {&in[t], &product.out[t], std::min(tile, in.size() - t), range.out_row});
  }
}

void Multiplier::multiply_plain(const Product& product, const RowRange& range, size_t worker) {
  const Weight& weight = product.weight;
  const WeightShape& shape = weight.shape;
  Scratch& scratch = scratch_[worker];
  const auto in = choose(scratch.in, in_, product.rows);
  const Tokens<float> tokens = {in.data(), product.out.data(), in.size(), range.out_row};
  const FloatRows rows = {weight.row(range.first), shape.row_bytes(), range.n, shape.row_elements};
  if (shape.dtype == DType::f32) return kernels_.matmul_f32(rows, tokens);
  if (shape.dtype == DType::f16) return kernels_.matmul_f16(rows, tokens);
  if (shape.dtype == DType::bf16) return kernels_.matmul_bf16(rows, tokens);
  for (uint64_t r = 0; r < range.n; r += kDecodedRows) {
    const uint64_t n = std::min<uint64_t>(kDecodedRows, range.n - r);
    for (uint64_t i = 0; i < n; i++) {
      decode_row(scratch.rows.data() + i * shape.row_elements, weight, range.first + r + i);
    }
    kernels_.matmul_f32({scratch.rows.data(), shape.row_elements * sizeof(float), n, shape.row_elements},
                        {in.data(), product.out.data(), in.size(), range.out_row + r});
  }
}

}  // namespace rocmforge::cpu
