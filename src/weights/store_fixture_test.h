#pragma once
// Shared by the store's tests: a small model file with predictable bytes, and a placement in host memory that checks
// the contract of placement.h, counts calls, and fails or blocks on demand.

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "gguf/reader.h"
#include "gguf/writer.h"
#include "weights/weight_store.h"

namespace rocmforge::testing {

// Counts calls, and decides which fail: the n-th, or the n-th and all after it (n from 1).
class Fuse {
 public:
  void fail_once(int64_t n) { arm(n, n); }
  void fail_from(int64_t n) { arm(n, std::numeric_limits<int64_t>::max()); }
  void mend() { arm(0, -1); }
  bool blows() {
    const int64_t n = ++n_calls_;
    return first_ <= n && n <= last_;
  }
  int64_t n_calls() const { return n_calls_; }

 private:
  void arm(int64_t first, int64_t last) {
    first_ = first;
    last_ = last;
    n_calls_ = 0;
  }
  std::atomic<int64_t> n_calls_ = 0, first_ = 0, last_ = -1;
};

// Blocks every caller until it is opened.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    n_arrived_++;
    changed_.notify_all();
    changed_.wait(lock, [&] { return is_open_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void wait_for_arrivals(size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return n_arrived_ >= n; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t n_arrived_ = 0;
  bool is_open_ = false;
};

struct TestWeight {
  std::string name;
  WeightShape shape;
  uint32_t stage = 0;
  uint32_t n_experts = 1;  // stacked, each of that shape
};

// A GGUF file of these weights; every byte follows from the weight's index, the byte's index, and a salt.
class TestModel {
 public:
  TestModel(std::string path, std::vector<TestWeight> weights, uint64_t salt = 0)
      : path_(std::move(path)), weights_(std::move(weights)), salt_(salt) {
    gguf::HeaderBuilder header;
    for (const TestWeight& w : weights_) {
      header.add_tensor(w.name, w.shape.dtype, {w.shape.row_elements, w.shape.n_rows * w.n_experts});
    }
    auto writer = gguf::GgufWriter::create(path_, header, {.durable = false});
    EXPECT_TRUE(writer.ok());
    for (size_t i = 0; i < weights_.size(); i++) EXPECT_TRUE(writer->write(bytes(i)).ok());
    EXPECT_TRUE(writer->finish().ok());
  }

  // An embedding, n_layers of three weights, an output, with 32-byte alignment in the file.
  static std::vector<TestWeight> layers(uint32_t n_layers) {
    std::vector<TestWeight> weights{{"embd", {DType::q4_0, 64, 999}, 0}};
    for (uint32_t i = 0; i < n_layers; i++) {
      const std::string prefix = fmt::format("l{}", i);
      weights.push_back({prefix + ".norm", {DType::f32, 96, 1}, 1 + i});
      weights.push_back({prefix + ".up", {DType::q8_0, 96, 211}, 1 + i});
      weights.push_back({prefix + ".down", {DType::q4_k, 256, 111}, 1 + i});
    }
    weights.push_back({"out", {DType::f16, 50, 300}, n_layers + 1});
    return weights;
  }

  std::vector<std::byte> bytes(size_t weight) const {
    std::vector<std::byte> bytes(weights_[weight].shape.file_bytes() * weights_[weight].n_experts);
    for (size_t i = 0; i < bytes.size(); i++) bytes[i] = byte_at(weight, i);
    return bytes;
  }

  bool holds(const WeightStore::Lease& lease) const {
    const size_t weight = lease.tensor().id.value;
    const uint64_t n_bytes = weights_[weight].shape.file_bytes();
    for (size_t i = 0; i < n_bytes; i++) {
      if (lease.data()[i] != byte_at(weight, i)) return false;
    }
    return true;
  }

  std::shared_ptr<const gguf::GgufFile> open(const FileCalls* calls = nullptr) const {
    auto file = gguf::GgufFile::open(path_, {}, calls);
    EXPECT_TRUE(file.ok());
    return std::make_shared<const gguf::GgufFile>(*std::move(file));
  }

  std::vector<WeightRequest> requests(const gguf::GgufFile& file) const {
    std::vector<WeightRequest> requests;
    for (const TestWeight& w : weights_) requests.push_back({file.find_tensor(w.name), w.shape, w.stage});
    return requests;
  }

  std::unique_ptr<WeightStore> store(Placement& placement, const WeightStore::Options& options = {.n_loaders = 3},
                                     const FileCalls* calls = nullptr) const {
    auto file = open(calls);
    auto requested = requests(*file);
    auto made = WeightStore::create(std::move(file), placement, std::move(requested), options);
    EXPECT_TRUE(made.ok());
    return *std::move(made);
  }

  const std::string& path() const { return path_; }
  std::span<const TestWeight> weights() const { return weights_; }

 private:
  std::byte byte_at(size_t weight, size_t i) const {
    const uint64_t mixed = (i + 1) * 0x9E3779B97F4A7C15u + weight * 0xC2B2AE3D27D4EB4Fu + salt_ * 0x165667B19E3779F9u;
    return static_cast<std::byte>(mixed >> 40);
  }

  std::string path_;
  std::vector<TestWeight> weights_;
  uint64_t salt_;
};

class TestPlacement final : public Placement {
 public:
  explicit TestPlacement(size_t staging = 24 << 10) : staging_bytes_(staging) {}
  ~TestPlacement() override { EXPECT_FALSE(is_reserved()); }

  static constexpr uint64_t kUnitRows = 4;

  uint64_t packed_bytes(const WeightShape& shape) const override { return shape.file_bytes(); }
  uint64_t rows_per_unit(const WeightShape&) const override { return kUnitRows; }
  size_t staging_bytes() const override { return staging_bytes_; }

  uint64_t available_bytes() const override { return UINT64_MAX; }
  uint64_t overhead_bytes(size_t n_loaders) const override { return n_loaders * staging_bytes_; }

  Result<void> reserve(uint64_t arena_bytes, size_t n_loaders) override {
    if (reserves.blows()) return Error{ErrorCode::out_of_memory, "no room"};
    CHECK(!is_reserved_);
    if (before_reserve) before_reserve();
    arena_ = allocate(arena_bytes);
    arena_bytes_ = arena_bytes;
    std::memset(arena_.get(), 0xCC, arena_bytes);
    for (size_t i = 0; i < n_loaders; i++) staging_.push_back(allocate(staging_bytes_));
    is_reserved_ = true;
    return {};
  }

  void release() override {
    CHECK(is_reserved_);
    is_reserved_ = false;
    arena_.reset();
    staging_.clear();
    n_releases++;
  }

  bool is_reserved() const override { return is_reserved_; }

  Result<std::span<std::byte>> staging(size_t loader) override {
    CHECK(is_reserved_ && loader < staging_.size());
    if (stagings.blows()) return Error{ErrorCode::out_of_memory, "no staging"};
    return std::span(staging_[loader].get(), staging_bytes_);
  }

  Result<void> land(uint64_t address, const WeightShape& shape, uint64_t first_row, std::span<const std::byte> rows,
                    size_t loader) override {
    const uint64_t offset = first_row * shape.row_bytes();
    const std::byte* const buffer = staging_[loader].get();
    CHECK(rows.data() >= buffer && rows.data() + rows.size() <= buffer + staging_bytes_);
    CHECK(first_row % kUnitRows == 0 && rows.size() % shape.row_bytes() == 0);
    CHECK(offset + rows.size() <= shape.file_bytes() && address + offset + rows.size() <= arena_bytes_);
    if (lands.blows()) return Error{ErrorCode::out_of_memory, "no landing"};
    if (before_land) before_land(loader);
    std::memcpy(arena_.get() + address + offset, rows.data(), rows.size());
    return {};
  }

  Result<void> finish(uint64_t, const WeightShape&, size_t loader) override {
    CHECK(loader < staging_.size() && !is_finishing_.exchange(true));
    const bool blown = finishes.blows();
    if (before_finish) before_finish();
    is_finishing_ = false;
    if (blown) return Error{ErrorCode::out_of_memory, "no finish"};
    return {};
  }

  void give_up(uint64_t, const WeightShape&) override { n_given_up++; }

  std::byte* base() const override { return arena_.get(); }

  Fuse reserves, stagings, lands, finishes;
  std::atomic<int> n_releases = 0;
  std::atomic<uint64_t> n_given_up = 0;
  std::function<void()> before_reserve, before_finish;
  std::function<void(size_t loader)> before_land;

 private:
  using Buffer = std::unique_ptr<std::byte, decltype(&std::free)>;
  static Buffer allocate(size_t n_bytes) {
    const size_t rounded = (n_bytes + File::kDirectAlignment - 1) / File::kDirectAlignment * File::kDirectAlignment;
    return {static_cast<std::byte*>(std::aligned_alloc(File::kDirectAlignment, rounded)), &std::free};
  }

  const size_t staging_bytes_;
  Buffer arena_{nullptr, &std::free};
  uint64_t arena_bytes_ = 0;
  std::vector<Buffer> staging_;
  std::atomic<bool> is_reserved_ = false;
  std::atomic<bool> is_finishing_ = false;
};

// A file system under the test's control: counts reads, fails or delays them, and reports what is cached.
struct TestFiles {
  TestFiles() {
    calls.pread = [this](int fd, void* to, size_t n_bytes, off_t offset) -> ssize_t {
      if (reads.blows()) {
        if (fault_errno == 0) return 0;  // the end of the file
        errno = fault_errno;
        return -1;
      }
      if (before_read) before_read(n_bytes);
      return ::pread(fd, to, n_bytes, offset);
    };
    calls.is_cached = [this](int, off_t) { return is_cached.load(); };
  }
  FileCalls calls;
  Fuse reads;
  int fault_errno = EIO;
  std::atomic<bool> is_cached = true;
  std::function<void(size_t n_bytes)> before_read;
};

}  // namespace rocmforge::testing
