// What opening costs at the limits: time, memory, and how time grows.

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "gguf/reader.h"
#include "gguf/writer.h"
#include "support/heap_meter.h"
#include "support/support.h"

namespace rocmforge::gguf {
namespace {

using rocmforge::testing::HeapMeter;
using rocmforge::testing::TempDir;

// The best of a few: what the work costs, not what else the machine did meanwhile.
double open_seconds(const std::string& path, int n_runs) {
  double best = 1e9;
  for (int i = 0; i < n_runs; i++) {
    const auto begin = std::chrono::steady_clock::now();
    const auto file = GgufFile::open(path);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_TRUE(file.ok()) << file.error().message;
    best = std::min(best, took.count());
  }
  return best;
}

// n keys and n tensors.
std::string write_wide_file(const TempDir& folder, uint32_t n) {
  HeaderBuilder builder;
  for (uint32_t i = 0; i < n; i++) builder.set_u32(fmt::format("model.block.{}.some_key", i), i);
  for (uint32_t i = 0; i < n; i++) builder.add_tensor(fmt::format("blk.{}.weight", i), DType::q4_k, {256});
  const std::string path = folder.file(std::to_string(n) + ".gguf");
  EXPECT_TRUE(GgufWriter::create(path, builder, {.durable = false}).value().finish_sparse().ok());
  return path;
}

TEST(LargeFile, AsManyKeysAndTensorsAsAllowedOpenInUnderASecond) {
  const TempDir folder;
  const std::string full = write_wide_file(folder, 65'536);
  const HeapMeter meter;
  const auto file = GgufFile::open(full);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_LE(meter.peak_bytes(), 4 * file->header_bytes() + (64u << 20));
  EXPECT_EQ(file->tensors().size(), 65'536u);
  EXPECT_EQ(file->find_tensor("blk.65535.weight"), &file->tensors()[65'535]);
  EXPECT_EQ(file->metadata().u32("model.block.4711.some_key").value(), 4711u);

  const double seconds = open_seconds(full, 5);
  EXPECT_LT(seconds, 1.0);
  RecordProperty("seconds", std::to_string(seconds));
  fmt::print("65,536 keys and 65,536 tensors: {:.1f} ms\n", seconds * 1e3);
}

// Twice the size takes about twice the time; a quadratic step anywhere would take four times.
TEST(LargeFile, TimeGrowsLinearly) {
  // Freed memory is kept, or the larger file would pay for fresh pages that the smaller one reuses.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  const TempDir folder;
  const std::string half = write_wide_file(folder, 32'768);
  const std::string full = write_wide_file(folder, 65'536);
  double ratio = 1e9;
  for (int i = 0; i < 20 && ratio > 2.3; i++) ratio = std::min(ratio, open_seconds(full, 5) / open_seconds(half, 5));
  EXPECT_LE(ratio, 2.3);
}

TEST(LargeFile, FortyGigabytesOpenInMilliseconds) {
  const TempDir folder;
  HeaderBuilder builder;
  builder.set_string("general.architecture", "llama");
  for (int i = 0; i < 1'000; i++) {
    builder.add_tensor(fmt::format("blk.{}.ffn_up.weight", i), DType::f16, {4096, 4883});
  }
  const std::string path = folder.file("large.gguf");
  ASSERT_TRUE(GgufWriter::create(path, builder, {.durable = false}).value().finish_sparse().ok());
  ASSERT_GE(std::filesystem::file_size(path), 40'000'000'000u);

  const HeapMeter meter;
  ASSERT_TRUE(GgufFile::open(path).ok());
  const size_t peak = meter.peak_bytes();
  EXPECT_LT(peak, 50u << 20);
  const double seconds = open_seconds(path, 5);
  EXPECT_LT(seconds, 0.050);
  fmt::print("40 GB, 1,000 tensors: {:.2f} ms, {} KiB of heap\n", seconds * 1e3, peak >> 10);
}

}  // namespace
}  // namespace rocmforge::gguf
