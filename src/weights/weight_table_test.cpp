#include "weights/weight_table.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/support.h"
#include "weights/store_fixture_test.h"

namespace rocmforge {
namespace {

using testing::TempDir;
using testing::TestModel;
using testing::TestPlacement;

class WeightTableTest : public ::testing::Test {
 protected:
  Result<WeightTable> build(std::vector<WeightRequest> requests, size_t n_loaders = 3) {
    return WeightTable::build(*file, placement, requests, n_loaders);
  }

  TempDir dir;
  TestModel model{dir.file("m.gguf"),
                  {{"late", {DType::f32, 96, 7}, 2},
                   {"big", {DType::q8_0, 64, 5000}, 0},
                   {"first", {DType::f32, 10, 1}, 0},
                   {"layer", {DType::q4_0, 32, 60}, 1}}};
  std::shared_ptr<const gguf::GgufFile> file = model.open();
  TestPlacement placement;
};

TEST_F(WeightTableTest, AddressesAscendByStageAndThenByRequest) {
  const WeightTable table = *build(model.requests(*file));
  const auto address = [&](uint32_t i) { return table.tensor(WeightId(i)).address; };
  EXPECT_EQ(address(1), 0u);
  EXPECT_EQ(address(2), 340224u);  // 5000 rows of 68 bytes, rounded up
  EXPECT_EQ(address(3), address(2) + 256);
  EXPECT_EQ(address(0), address(3) + 1280);  // 60 rows of 18 bytes
  EXPECT_EQ(table.arena_bytes(), address(0) + 2816);
  EXPECT_EQ(table.n_stages(), 3u);
  EXPECT_EQ(table.n_layers(), 1u);
  EXPECT_EQ(table.stage(0).size(), 2u);
}

TEST_F(WeightTableTest, KnowsWhereEachWeightLiesInTheFile) {
  const WeightTable table = *build(model.requests(*file));
  for (const LazyTensor& weight : table.tensors()) {
    const gguf::TensorInfo& info = *file->find_tensor(weight.name);
    EXPECT_EQ(weight.file_offset, info.offset);
    EXPECT_EQ(weight.file_bytes, info.n_bytes);
    EXPECT_EQ(table.find(weight.name), weight.id);
  }
  EXPECT_EQ(table.find("absent"), std::nullopt);
}

TEST_F(WeightTableTest, CutsChunksThatFitStagingAndGiveEveryLoaderAShare) {
  for (const size_t staging : {10u << 10, 64u << 10, 1u << 20, 64u << 20}) {
    for (const size_t n_loaders : {1, 2, 8}) {
      const TestPlacement other(staging);
      const auto requests = model.requests(*file);
      const WeightTable table = *WeightTable::build(*file, other, requests, n_loaders);
      for (const LazyTensor& weight : table.tensors()) {
        const uint64_t rows = table.chunk_rows(weight.id);
        const uint64_t bytes = rows * weight.shape.row_bytes();
        const uint64_t unit = std::min(TestPlacement::kUnitRows, weight.shape.n_rows);
        EXPECT_GT(rows, 0u);
        EXPECT_EQ(rows % unit, 0u);
        EXPECT_TRUE(bytes <= staging - 2 * File::kDirectAlignment) << weight.name;
        // No larger than a fair share, unless that is too little to be worth a read of its own.
        const uint64_t share = weight.file_bytes / n_loaders + unit * weight.shape.row_bytes();
        EXPECT_LE(bytes, std::max(share, WeightTable::kMinChunkBytes + unit * weight.shape.row_bytes()));
      }
    }
  }
}

TEST_F(WeightTableTest, RefusesShapesThatAreNotTheTensors) {
  const std::vector<WeightShape> wrong = {
      {DType::f16, 96, 7}, {DType::f32, 96, 8}, {DType::f32, 96, 14}, {DType::f32, 0, 0}, {DType::f32, 96, ~0ull / 8},
  };
  for (const WeightShape& shape : wrong) {
    const auto table = build({{file->find_tensor("late"), shape, 0}});
    ASSERT_FALSE(table.ok());
    EXPECT_EQ(table.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(table.error().message.find("weights: tensor 'late'"), std::string::npos) << table.error().message;
  }
}

TEST_F(WeightTableTest, RefusesATensorRequestedTwice) {
  auto requests = model.requests(*file);
  requests.push_back(requests[1]);
  const auto table = build(std::move(requests));
  ASSERT_FALSE(table.ok());
  EXPECT_EQ(table.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(table.error().message, "weights: tensor 'big': requested twice");
}

TEST_F(WeightTableTest, RefusesRowsThatNoStagingBufferHolds) {
  const TestPlacement small(2 * File::kDirectAlignment + 4 * 68 - 1);
  const auto requests = model.requests(*file);
  const auto table = WeightTable::build(*file, small, std::span(requests).subspan(1, 1), 1);
  ASSERT_FALSE(table.ok());
  EXPECT_EQ(table.error().code, ErrorCode::unsupported);
  EXPECT_NE(table.error().message.find("'big': 4 rows of 68 B"), std::string::npos) << table.error().message;
}

TEST_F(WeightTableTest, AStoreWithoutWeightsIsEmpty) {
  const WeightTable table = *build({});
  EXPECT_EQ(table.arena_bytes(), 0u);
  EXPECT_EQ(table.n_stages(), 0u);
  EXPECT_EQ(table.n_layers(), 0u);
}

}  // namespace
}  // namespace rocmforge
