#include "cpu/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "base/file.h"
#include "cpu/memory.h"
#include "cpu/test_weights.h"
#include "support/support.h"

namespace rocmforge::cpu {
namespace {

class PlacementOf : public EveryIsa {};

std::vector<WeightShape> ragged_shapes(DType dtype) {
  const uint64_t block = dtype_info(dtype).block_elements;
  std::vector<WeightShape> shapes;
  for (uint64_t n_rows = 1; n_rows <= 17; n_rows++) {
    for (uint64_t n_blocks = 1; n_blocks <= 3; n_blocks++) shapes.push_back({dtype, n_blocks * block, n_rows});
  }
  return shapes;
}

TEST_P(PlacementOf, PackedSizeIsNearTheFiles) {
  const CpuPlacement placement(kernels());
  for (const DType dtype : weight_dtypes()) {
    for (const WeightShape& shape : ragged_shapes(dtype)) {
      EXPECT_GE(placement.packed_bytes(shape), shape.file_bytes());
      EXPECT_LE(static_cast<double>(placement.packed_bytes(shape)),
                1.03 * static_cast<double>(shape.file_bytes()) + 4096);
    }
  }
}

// Pieces may come in any order and from any loader: the arena ends the same, and every row decodes to the file's.
TEST_P(PlacementOf, LandsInAnyOrder) {
  gguf::RandomBits random(1);
  auto shuffle = testing::seeded_rng();
  CpuPlacement placement(kernels());
  for (const DType dtype : weight_dtypes()) {
    for (const WeightShape& shape : ragged_shapes(dtype)) {
      const auto expected = make_weight(kernels(), shape, random);
      constexpr uint64_t kAddress = 4096;
      ASSERT_TRUE(placement.reserve(kAddress + placement.packed_bytes(shape), 2).ok());
      const uint64_t unit = placement.rows_per_unit(shape);
      std::vector<uint64_t> pieces;
      for (uint64_t r = 0; r < shape.n_rows; r += unit) pieces.push_back(r);
      std::shuffle(pieces.begin(), pieces.end(), shuffle);
      for (size_t i = 0; i < pieces.size(); i++) {
        const size_t loader = i % 2;
        const auto staging = placement.staging(loader);
        ASSERT_TRUE(staging.ok());
        EXPECT_GE(staging->size(), placement.staging_bytes());
        EXPECT_EQ(reinterpret_cast<uintptr_t>(staging->data()) % File::kDirectAlignment, 0u);
        const uint64_t n_rows = std::min(unit, shape.n_rows - pieces[i]);
        const std::span<std::byte> rows = staging->first(n_rows * shape.row_bytes());
        std::copy_n(expected->file.begin() + static_cast<ptrdiff_t>(pieces[i] * shape.row_bytes()), rows.size(),
                    rows.begin());
        ASSERT_TRUE(placement.land(kAddress, shape, pieces[i], rows, loader).ok());
      }
      ASSERT_TRUE(placement.finish(kAddress, shape, 0).ok());
      EXPECT_EQ(std::memcmp(placement.base() + kAddress, expected->memory.data(), shape.file_bytes()), 0);

      const Weight weight = {shape, placement.base() + kAddress, packed_format(kernels(), shape)};
      std::vector<float> row(shape.row_elements);
      for (uint64_t r = 0; r < shape.n_rows; r++) {
        decode_row(row.data(), weight, r);
        EXPECT_EQ(std::memcmp(row.data(), &expected->values[r * row.size()], row.size() * 4), 0)
            << dtype_info(dtype).name << " rows " << shape.n_rows << " row " << r;
      }
    }
  }
}

TEST_P(PlacementOf, LoadersWorkSideBySide) {
  gguf::RandomBits random(2);
  const WeightShape shape = {DType::q4_k, 512, 128};
  const auto expected = make_weight(kernels(), shape, random);
  CpuPlacement placement(kernels());
  constexpr size_t kLoaders = 4;
  ASSERT_TRUE(placement.reserve(placement.packed_bytes(shape), kLoaders).ok());
  std::vector<std::thread> loaders;
  for (size_t loader = 0; loader < kLoaders; loader++) {
    loaders.emplace_back([&, loader] {
      const auto staging = placement.staging(loader);
      constexpr uint64_t kRows = kMaxPackedRows;
      for (uint64_t r = loader * kRows; r < shape.n_rows; r += kLoaders * kRows) {
        std::copy_n(expected->file.data() + r * shape.row_bytes(), kRows * shape.row_bytes(), staging->data());
        EXPECT_TRUE(placement.land(0, shape, r, staging->first(kRows * shape.row_bytes()), loader).ok());
      }
    });
  }
  for (std::thread& loader : loaders) loader.join();
  EXPECT_EQ(std::memcmp(placement.base(), expected->memory.data(), shape.file_bytes()), 0);
}

RF_FOR_EVERY_ISA(PlacementOf);

TEST(CpuPlacement, SaysWhatIsNeededWhenMemoryIsShort) {
  CpuPlacement placement(scalar_kernels(), [] { return uint64_t{100} << 20; });
  const auto reserved = placement.reserve(uint64_t{3} << 30, 2);
  ASSERT_FALSE(reserved.ok());
  EXPECT_EQ(reserved.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(reserved.error().message.find("3.00 GiB needed"), std::string::npos) << reserved.error().message;
  EXPECT_NE(reserved.error().message.find("available"), std::string::npos);
  EXPECT_FALSE(placement.is_reserved());
  EXPECT_TRUE(placement.reserve(1 << 20, 2).ok());
  EXPECT_TRUE(placement.is_reserved());
  placement.release();
  EXPECT_FALSE(placement.is_reserved());
}

TEST(Memory, IsZeroedAndAlignedToHugePages) {
  for (const uint64_t n_bytes : {uint64_t{1}, uint64_t{5000}, uint64_t{3} << 20}) {
    auto memory = Memory::allocate(n_bytes, available_memory(), "test");
    ASSERT_TRUE(memory.ok());
    EXPECT_GE(memory->size(), n_bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % (2 << 20), 0u);
    EXPECT_TRUE(std::all_of(memory->data(), memory->data() + n_bytes, [](std::byte b) { return b == std::byte{0}; }));
    std::memset(memory->data(), 1, memory->size());
  }
  EXPECT_EQ(Memory::allocate(0, 0, "test")->size(), 0u);
}

TEST(Memory, RefusesSizesNoMachineHas) {
  const auto memory =
      Memory::allocate(std::numeric_limits<uint64_t>::max() - 5, std::numeric_limits<uint64_t>::max(), "x");
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.error().code, ErrorCode::out_of_memory);
}

TEST(Memory, AvailableIsPlausible) {
  EXPECT_GT(available_memory(), uint64_t{16} << 20);
  EXPECT_LT(available_memory(), uint64_t{1} << 50);
}

}  // namespace
}  // namespace rocmforge::cpu
