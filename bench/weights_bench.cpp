// How fast a WeightStore brings in a model of Llama-1B's shape from a warm page cache, against what the machine can do
// with plain reads and copies, and what a hit costs.
//
//   weights_bench --benchmark_min_time=3

#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "gguf/reader.h"
#include "gguf/writer.h"
#include "weights/weight_store.h"

namespace rocmforge {
namespace {

// Fresh anonymous memory in huge pages, as the weights' arena is.
class Memory {
 public:
  explicit Memory(size_t n_bytes) : n_bytes_(n_bytes) {
    void* at = ::mmap(nullptr, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    ::madvise(at, n_bytes, MADV_HUGEPAGE);
    data_ = static_cast<std::byte*>(at);
  }
  ~Memory() { ::munmap(data_, n_bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
  size_t n_bytes_;
};

// Weights as the file holds them: the cost of the store itself, without any repacking.
class CopyPlacement final : public Placement {
 public:
  explicit CopyPlacement(size_t staging_bytes) : staging_bytes_(staging_bytes) {}
  uint64_t packed_bytes(const WeightShape& shape) const override { return shape.file_bytes(); }
  uint64_t rows_per_unit(const WeightShape&) const override { return 8; }
  size_t staging_bytes() const override { return staging_bytes_; }
  uint64_t available_bytes() const override { return UINT64_MAX; }
  uint64_t overhead_bytes(size_t n_loaders) const override { return n_loaders * staging_bytes_; }
  Result<void> reserve(uint64_t arena_bytes, size_t n_loaders) override {
    arena_ = std::make_unique<Memory>(arena_bytes);
    for (size_t i = 0; i < n_loaders; i++) staging_.push_back(std::make_unique<Memory>(staging_bytes_));
    return {};
  }
  void release() override {
    arena_.reset();
    staging_.clear();
  }
  bool is_reserved() const override { return arena_ != nullptr; }
  Result<std::span<std::byte>> staging(size_t loader) override {
    return std::span(staging_[loader]->data(), staging_bytes_);
  }
  Result<void> land(uint64_t address, const WeightShape& shape, uint64_t first_row, std::span<const std::byte> rows,
                    size_t) override {
    std::memcpy(arena_->data() + address + first_row * shape.row_bytes(), rows.data(), rows.size());
    return {};
  }
  Result<void> finish(uint64_t, const WeightShape&, size_t) override { return {}; }
  std::byte* base() const override { return arena_->data(); }

 private:
  size_t staging_bytes_;
  std::unique_ptr<Memory> arena_;
  std::vector<std::unique_ptr<Memory>> staging_;
};

struct Weight {
  std::string name;
  WeightShape shape;
  uint32_t stage;
};

std::vector<Weight> llama_1b() {
  std::vector<Weight> weights{{"token_embd", {DType::q6_k, 2048, 128'256}, 0}};
  for (uint32_t i = 0; i < 16; i++) {
    const std::string layer = "blk." + std::to_string(i);
    weights.push_back({layer + ".norm", {DType::f32, 2048, 2}, 1 + i});
    weights.push_back({layer + ".q", {DType::q4_k, 2048, 2048}, 1 + i});
    weights.push_back({layer + ".k", {DType::q4_k, 2048, 512}, 1 + i});
    weights.push_back({layer + ".v", {DType::q6_k, 2048, 512}, 1 + i});
    weights.push_back({layer + ".o", {DType::q4_k, 2048, 2048}, 1 + i});
    weights.push_back({layer + ".gate", {DType::q4_k, 2048, 8192}, 1 + i});
    weights.push_back({layer + ".up", {DType::q4_k, 2048, 8192}, 1 + i});
    weights.push_back({layer + ".down", {DType::q4_k, 8192, 2048}, 1 + i});
  }
  weights.push_back({"output_norm", {DType::f32, 2048, 1}, 17});
  return weights;
}

// The file, written once and read once so that it is in the page cache.
class Model {
 public:
  Model() : path_(std::filesystem::temp_directory_path() / "rocmforge_weights_bench.gguf") {
    gguf::HeaderBuilder header;
    for (const Weight& w : weights_) header.add_tensor(w.name, w.shape.dtype, {w.shape.row_elements, w.shape.n_rows});
    auto writer = *gguf::GgufWriter::create(path_, header, {.durable = false});
    for (const Weight& w : weights_) {
      std::vector<std::byte> bytes(w.shape.file_bytes());
      for (size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<std::byte>(i * 0x9E3779B97F4A7C15u >> 56);
      CHECK(writer.write(bytes).ok());
    }
    CHECK(writer.finish().ok());
    file = std::make_shared<const gguf::GgufFile>(*gguf::GgufFile::open(path_));
  }
  ~Model() { std::filesystem::remove(path_); }

  std::unique_ptr<WeightStore> store(Placement& placement, size_t n_loaders) const {
    std::vector<WeightRequest> requests;
    for (const Weight& w : weights_) requests.push_back({file->find_tensor(w.name), w.shape, w.stage});
    return *WeightStore::create(file, placement, requests, {.n_loaders = n_loaders});
  }

  static const Model& shared() {
    static const Model model;
    return model;
  }

  std::shared_ptr<const gguf::GgufFile> file;

 private:
  std::string path_;
  std::vector<Weight> weights_ = llama_1b();
};

// Calls part(begin, end) for each thread's share of the file.
template <class Part>
void split(uint64_t n_bytes, int64_t n_threads, const Part& part) {
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < n_threads; i++) {
    threads.emplace_back([=] { part(n_bytes * i / n_threads, n_bytes * (i + 1) / n_threads); });
  }
  for (std::thread& thread : threads) thread.join();
}

void count_bytes(benchmark::State& state, uint64_t n_bytes) {
  state.SetBytesProcessed(static_cast<int64_t>(n_bytes) * state.iterations());
}

// The limit: memory to fresh memory.
void copy_memory(benchmark::State& state) {
  const uint64_t n_bytes = Model::shared().file->weight_bytes();
  const Memory from(n_bytes);
  std::memset(from.data(), 1, n_bytes);
  for (auto _ : state) {
    const Memory to(n_bytes);
    split(n_bytes, state.range(0),
          [&](uint64_t begin, uint64_t end) { std::memcpy(to.data() + begin, from.data() + begin, end - begin); });
  }
  count_bytes(state, n_bytes);
}
BENCHMARK(copy_memory)
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(2)
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// Page cache to fresh memory, 1 MiB at a time.
void read_file(benchmark::State& state) {
  const File& file = Model::shared().file->file(0);
  const uint64_t n_bytes = file.size();
  for (auto _ : state) {
    const Memory to(n_bytes);
    split(n_bytes, state.range(0), [&](uint64_t begin, uint64_t end) {
      for (uint64_t at = begin; at < end; at += 1 << 20) {
        const uint64_t n = std::min<uint64_t>(1 << 20, end - at);
        CHECK(file.read_at({to.data() + at, n}, at).ok());
      }
    });
  }
  count_bytes(state, n_bytes);
}
BENCHMARK(read_file)->ArgName("threads")->Arg(1)->Arg(2)->MeasureProcessCPUTime()->UseRealTime()->Unit(
    benchmark::kMillisecond);

void preload_all(benchmark::State& state) {
  const Model& model = Model::shared();
  CopyPlacement placement(static_cast<size_t>(state.range(1)) << 10);
  const auto store = model.store(placement, static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    CHECK(store->preload_all().ok());
    store->clear();
  }
  count_bytes(state, model.file->weight_bytes());
}
BENCHMARK(preload_all)
    ->ArgNames({"loaders", "staging_kib"})
    ->ArgsProduct({{1, 2}, {256, 1024, 2048, 4096}})
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void get_and_release_resident(benchmark::State& state) {
  static CopyPlacement placement(1 << 20);
  static const auto store = Model::shared().store(placement, 2);
  if (state.thread_index() == 0) CHECK(store->get(WeightId(1)).ok());
  for (auto _ : state) {
    auto lease = store->get(WeightId(1));
    benchmark::DoNotOptimize(lease);
  }
}
BENCHMARK(get_and_release_resident)->Threads(1)->Threads(2)->UseRealTime();

// What a pass asks for each layer when nothing is left to load: prefetch the next, lease this one's eight weights.
void pass_over_a_resident_layer(benchmark::State& state) {
  CopyPlacement placement(1 << 20);
  const auto store = Model::shared().store(placement, 2);
  CHECK(store->preload_layers(0, 2).ok());
  for (auto _ : state) {
    store->prefetch(store->stage_weights(2));
    auto leases = store->get_all(store->stage_weights(1));
    benchmark::DoNotOptimize(leases);
  }
}
BENCHMARK(pass_over_a_resident_layer);

void open_store(benchmark::State& state) {
  CopyPlacement placement(1 << 20);
  for (auto _ : state) benchmark::DoNotOptimize(Model::shared().store(placement, 2));
}
BENCHMARK(open_store)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace rocmforge

BENCHMARK_MAIN();
