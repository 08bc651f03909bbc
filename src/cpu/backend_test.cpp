// A small transformer in steps, through the whole backend. Its numbers are checked against the reference by
// tests/logits_test.cpp; here: the same bits in any batch, and memory.

#include "cpu/backend.h"

#include <gtest/gtest.h>

#include <map>

#include "cpu/test_weights.h"

namespace rocmforge {
namespace {

using cpu::same_bits;

constexpr uint32_t kVocab = 61, kWidth = 64, kHeads = 4, kKvHeads = 2, kHeadSize = 16, kHidden = 96, kLayers = 2;

// Two layers, the second one's feed-forward a mixture of experts.
struct Transformer {
  Transformer(const cpu::Kernels& k, DType d, uint32_t hidden) : kernels(k), dtype(d), hidden_width(hidden) {
    x = slot("x", kWidth);
    h = slot("h", kWidth);
    q = slot("q", kHeads * kHeadSize);
    k_ = slot("k", kKvHeads * kHeadSize);
    v = slot("v", kKvHeads * kHeadSize);
    attended = slot("attended", kHeads * kHeadSize);
    gate = slot("gate", 2 * hidden);
    up = slot("up", 2 * hidden);
    dense_gate = slot("dense gate", hidden);
    dense_up = slot("dense up", hidden);
    scores = slot("scores", 4);
    routing = slot("routing", 4);
    last = slot("last", kWidth, SlotRows::outputs);
    logits = slot("logits", kVocab, SlotRows::outputs);

    steps.push_back(Embed{weight(kWidth, kVocab), x});
    for (uint32_t layer = 0; layer < kLayers; layer++) {
      steps.push_back(Norm{NormKind::rms, 1e-5f, x, h, vector(kWidth), {}});
      steps.push_back(Matmul{h,
                             {{weight(kWidth, kHeads * kHeadSize), vector(kHeads * kHeadSize), q},
                              {weight(kWidth, kKvHeads * kHeadSize), {}, k_},
                              {weight(kWidth, kKvHeads * kHeadSize), {}, v}}});
      steps.push_back(Rope{{.n_dims = kHeadSize}, {}, kHeadSize, q, k_});
      steps.push_back(StoreKv{layer, k_, v});
      steps.push_back(Attend{layer, kHeads, kKvHeads, kHeadSize, 0.25f, q, attended});
      steps.push_back(Matmul{attended, {{weight(kHeads * kHeadSize, kWidth), {}, h}}});
      steps.push_back(Add{h, x});
      steps.push_back(Norm{NormKind::layer, 1e-5f, x, h, vector(kWidth), vector(kWidth)});
      if (layer == 0) {
        steps.push_back(Matmul{h, {{weight(kWidth, hidden), {}, dense_gate}, {weight(kWidth, hidden), {}, dense_up}}});
        steps.push_back(Activate{Activation::silu, dense_gate, dense_up, dense_gate});
        steps.push_back(Matmul{dense_gate, {{weight(hidden, kWidth), {}, h}}});
      } else {
        steps.push_back(Matmul{h, {{weight(kWidth, 4), {}, scores}}});
        steps.push_back(Route{4, 2, true, scores, routing});
        steps.push_back(
            ExpertMatmul{2, h, routing, {{stack(kWidth, hidden, 4), gate}, {stack(kWidth, hidden, 4), up}}});
        steps.push_back(Activate{Activation::gelu, gate, up, gate});
        steps.push_back(ExpertCombine{2, gate, routing, h, stack(hidden, kWidth, 4)});
      }
      steps.push_back(Add{h, x});
    }
    steps.push_back(TakeRows{x, last});
    steps.push_back(Matmul{last, {{weight(kWidth, kVocab), {}, logits}}});
  }

  SlotId slot(const char* name, uint32_t width, SlotRows rows = SlotRows::batch) {
    slots.push_back({name, width, rows});
    return SlotId(static_cast<uint32_t>(slots.size() - 1));
  }
  WeightId add(const WeightShape& shape) {
    weights.push_back(cpu::make_weight(kernels, shape, random));
    return WeightId(static_cast<uint32_t>(weights.size() - 1));
  }
  WeightId weight(uint64_t in, uint64_t out) {
    return add({in % dtype_info(dtype).block_elements == 0 ? dtype : DType::f32, in, out});
  }
  ExpertStack stack(uint64_t in, uint64_t out, uint32_t n) {
    const ExpertStack made{weight(in, out), n};
    for (uint32_t i = 1; i < n; i++) weight(in, out);
    return made;
  }
  WeightId vector(uint64_t n) { return add({DType::f32, n, 1}); }

  PassMemory memory(KvType kv, uint32_t max_rows) const {
    return {slots, max_rows, max_rows, kLayers, 16, kKvHeads * kHeadSize, kv, kHeadSize};
  }

  const cpu::Kernels& kernels;
  DType dtype;
  uint32_t hidden_width;
  gguf::RandomBits random{7};
  std::vector<Slot> slots;
  std::vector<std::unique_ptr<cpu::TestWeight>> weights;
  std::vector<Step> steps;
  SlotId x, h, q, k_, v, attended, gate, up, dense_gate, dense_up, scores, routing, last, logits;
};

std::vector<TokenId> tokens_of(uint32_t n, uint64_t seed) {
  gguf::RandomBits random(seed);
  std::vector<TokenId> out;
  for (uint32_t i = 0; i < n; i++) out.emplace_back(static_cast<int32_t>(random.below(kVocab)));
  return out;
}

// The logits of every position of every sequence, all sequences in step, `chunk` tokens of each at a time.
std::vector<std::vector<float>> run(const Transformer& model, const std::vector<std::vector<TokenId>>& sequences,
                                    uint32_t chunk, size_t n_threads, KvType kv, const Fusions& fusions = {}) {
  CpuBackend backend({.n_threads = n_threads, .kernels = &model.kernels});
  EXPECT_TRUE(backend.reserve(model.memory(kv, static_cast<uint32_t>(sequences.size()) * chunk)).ok());
  PagePool pool(16);
  std::vector<BlockTable> tables;
  for (const auto& sequence : sequences) EXPECT_TRUE(tables.emplace_back(pool).grow_to(sequence.size()).ok());
  const auto find = [&](WeightId id) { return model.weights[id.value]->weight; };
  const std::vector<Step> steps = fuse(model.steps, model.slots, fusions);
  std::vector<std::vector<float>> out(sequences.size());
  for (uint32_t first = 0;; first += chunk) {
    Batch batch;
    std::vector<std::pair<size_t, size_t>> parts;  // sequence, rows
    for (size_t i = 0; i < sequences.size(); i++) {
      if (first >= sequences[i].size()) continue;
      const size_t n = std::min<size_t>(chunk, sequences[i].size() - first);
      batch.add(std::span(sequences[i]).subspan(first, n), first, tables[i].pages(), false);
      parts.emplace_back(i, n);
    }
    if (parts.empty()) return out;
    EXPECT_TRUE(backend.run(steps, batch, find).ok());
    std::vector<float> logits(batch.n_outputs() * kVocab);
    EXPECT_TRUE(backend.read(logits, model.logits).ok());
    auto at = logits.begin();
    for (const auto& [i, n] : parts) {
      out[i].insert(out[i].end(), at, at + static_cast<ptrdiff_t>(n * kVocab));
      at += static_cast<ptrdiff_t>(n * kVocab);
    }
  }
}

class BackendOf : public cpu::EveryIsa {};

TEST_P(BackendOf, ChunksBatchesAndThreadsDoNotShowInTheBits) {
  for (const DType dtype : {DType::f32, DType::q8_0, DType::q4_0, DType::nvfp4}) {
    const Transformer model(kernels(), dtype, kHidden);
    for (const KvType kv : {KvType::f16, KvType::f32}) {
      const std::vector<std::vector<TokenId>> two = {tokens_of(100, 1), tokens_of(70, 2)};
      const auto expected = run(model, {two[0]}, 100, 1, kv)[0];
      EXPECT_FALSE(std::isnan(expected[0]));
      for (const uint32_t chunk : {1u, 7u, 48u}) {
        EXPECT_TRUE(same_bits(run(model, {two[0]}, chunk, 1, kv)[0], expected)) << chunk;
        const auto together = run(model, two, chunk, 2, kv);
        EXPECT_TRUE(same_bits(together[0], expected)) << chunk;
        EXPECT_TRUE(same_bits(together[1], run(model, {two[1]}, 70, 1, kv)[0])) << chunk;
      }
    }
  }
}

// One row of each sequence goes head by head, more rows do not; two threads share the rows of a product's input.
TEST_P(BackendOf, FusedStepsHaveTheBitsOfTheirParts) {
  const Fusions all = CpuBackend({.n_threads = 1, .kernels = &kernels()}).fusions();
  const std::vector<Fusions> some = {
      all, {.row_chain = all.row_chain}, {.rows_matmul = all.rows_matmul}, {.cached_attend = all.cached_attend}};
  const std::vector<std::vector<TokenId>> two = {tokens_of(20, 4), tokens_of(12, 5)};
  for (const DType dtype : {DType::f32, DType::bf16, DType::q8_0}) {
    const Transformer model(kernels(), dtype, kHidden);
    for (const uint32_t chunk : {1u, 5u, 20u}) {
      const auto expected = run(model, two, chunk, 1, KvType::f16);
      for (const Fusions& fusions : some) {
        for (const size_t n_threads : {1, 2}) {
          const auto got = run(model, two, chunk, n_threads, KvType::f16, fusions);
          for (const size_t i : {0, 1}) EXPECT_TRUE(same_bits(got[i], expected[i])) << chunk << ", sequence " << i;
        }
      }
    }
  }
}

TEST_P(BackendOf, TablesAgreeUpToRounding) {
  const std::vector<TokenId> tokens = tokens_of(40, 3);
  for (const DType dtype : {DType::f32, DType::q8_0}) {
    const Transformer reference(cpu::scalar_kernels(), dtype, kHidden), ours(kernels(), dtype, kHidden);
    const auto expected = run(reference, {tokens}, 40, 1, KvType::f32)[0];
    const auto got = run(ours, {tokens}, 40, 1, KvType::f32)[0];
    double error = 0, power = 0;
    for (size_t i = 0; i < got.size(); i++) {
      error += std::pow(double{got[i]} - expected[i], 2);
      power += std::pow(double{expected[i]}, 2);
    }
    EXPECT_LE(error / power, dtype == DType::f32 ? 1e-10 : 1e-3);
  }
}

RF_FOR_EVERY_ISA(BackendOf);

TEST(CpuBackend, SaysWhatIsNeededWhenMemoryIsShort) {
  const Transformer model(cpu::scalar_kernels(), DType::f32, kHidden);
  CpuBackend backend(
      {.n_threads = 1, .kernels = &cpu::scalar_kernels(), .available_memory = [] { return uint64_t{1000}; }});
  const auto reserved = backend.reserve(model.memory(KvType::f16, 8));
  ASSERT_FALSE(reserved.ok());
  EXPECT_EQ(reserved.error().code, ErrorCode::out_of_memory);
}

TEST(CpuBackend, CountsItsMemory) {
  const Transformer model(cpu::scalar_kernels(), DType::f32, kHidden);
  const CpuBackend backend({.n_threads = 1, .kernels = &cpu::scalar_kernels()});
  PassMemory memory = model.memory(KvType::f16, 8);
  const uint64_t with_pages = backend.pass_bytes(memory);
  memory.n_pages = 0;
  EXPECT_EQ(with_pages - backend.pass_bytes(memory),
            uint64_t{16} * kLayers * 2 * kPageTokens * kKvHeads * kHeadSize * 2);
  EXPECT_GT(backend.pass_bytes(memory), uint64_t{8} * kVocab * 4);
}

TEST(CpuBackend, CanBeReservedAgain) {
  const Transformer model(cpu::scalar_kernels(), DType::f32, kHidden);
  CpuBackend backend({.n_threads = 1, .kernels = &cpu::scalar_kernels()});
  for (const uint32_t rows : {4u, 90u, 1u}) ASSERT_TRUE(backend.reserve(model.memory(KvType::f16, rows)).ok());
  backend.release();
}

}  // namespace
}  // namespace rocmforge
