// Which kernel computes which product, without a device.

#include "gpu/product_choice.h"

#include <gtest/gtest.h>

#include <string>

namespace rocmforge::gpu {
namespace {

constexpr ProductDevice kHopper{.has_hopper = true, .joins_steps = true, .has_panels = true, .input_bytes = 64 << 20};
constexpr ProductDevice kPortable{.has_panels = true, .input_bytes = 64 << 20};

// From how many rows on which route is taken, as text: "1 one_row, 2 eight_rows".
std::string routes_by_rows(const ProductDevice& device, uint32_t width, const std::vector<Product::Part>& parts,
                           size_t part = 0) {
  std::string out, last;
  for (uint32_t n_rows = 1; n_rows <= 600; n_rows++) {
    const std::string name = name_of(choose_product(device, {n_rows, width, parts}, part));
    if (name == last) continue;
    out += (out.empty() ? "" : ", ") + std::to_string(n_rows) + " " + name;
    last = name;
  }
  return out;
}

TEST(ProductChoice, OnHopper) {
  const std::string k = "1 stream, 2 stream_many, 17 stream_rows, 129 hopper_tiles, 384 panels";
  EXPECT_EQ(routes_by_rows(kHopper, 4096, {{DType::q4_k, 4096}}), k);
  EXPECT_EQ(routes_by_rows(kHopper, 14336, {{DType::q6_k, 4096}}), k);
  EXPECT_EQ(routes_by_rows(kHopper, 4096, {{DType::q4_k, 4096}, {DType::q4_k, 1024}, {DType::q6_k, 1024}}), k);
  const std::string other = "1 stream, 2 stream_many, 33 hopper_tiles, 384 panels";
  EXPECT_EQ(routes_by_rows(kHopper, 4096, {{DType::q8_0, 4096}}), other);
  EXPECT_EQ(routes_by_rows(kHopper, 4096, {{DType::q4_k, 4096}, {DType::q8_0, 1024}}), other);
  EXPECT_EQ(routes_by_rows(kHopper, 4096, {{DType::f16, 4096}}), "1 stream, 9 hopper_tiles, 384 panels");
  EXPECT_EQ(routes_by_rows(kHopper, 4096, {{DType::f32, 4096}}), "1 one_row, 2 eight_rows, 9 f32_tiles");
  EXPECT_EQ(routes_by_rows(kHopper, 4096, {{DType::iq2_xs, 4096}}), "1 one_row, 2 hopper_tiles, 384 panels");
}

TEST(ProductChoice, OnHopperWhereAStreamIsNotPossible) {
  const std::string tiles = "1 one_row, 2 hopper_tiles, 384 panels";
  EXPECT_EQ(routes_by_rows(kHopper, 4096, {{DType::q4_k, 4095}}), tiles);
  EXPECT_EQ(routes_by_rows(kHopper, 4096, {{DType::q4_k, 4096, false}}), "1 one_row, 2 hopper_tiles");
  EXPECT_EQ(routes_by_rows(kHopper, 4128, {{DType::q8_0, 4096}}), "1 one_row, 2 eight_rows");
  EXPECT_EQ(routes_by_rows(kHopper, 2880, {{DType::mxfp4, 4096}}), "1 one_row, 2 eight_rows, 33 panels");
  ProductDevice device = kHopper;
  device.joins_steps = false;
  EXPECT_EQ(routes_by_rows(device, 4096, {{DType::q4_k, 4096}}), tiles);
  device = kHopper;
  device.has_panels = false;
  EXPECT_EQ(routes_by_rows(device, 4096, {{DType::q5_k, 4096}}),
            "1 stream, 2 stream_many, 17 stream_rows, 129 hopper_tiles");
  device = kHopper;
  device.input_bytes = 1 << 20;  // the inputs of few rows alone
  EXPECT_EQ(routes_by_rows(device, 4096, {{DType::q4_k, 4096}}),
            "1 stream, 2 stream_many, 17 stream_rows, 65 hopper_tiles, 384 panels");
}

TEST(ProductChoice, OnOtherCards) {
  for (const DType dtype : {DType::q4_k, DType::q8_0, DType::mxfp4, DType::iq2_xs}) {
    EXPECT_EQ(routes_by_rows(kPortable, 4096, {{dtype, 4096}}), "1 one_row, 2 stream_fragments, 65 panels");
    EXPECT_EQ(routes_by_rows(kPortable, 4128, {{dtype, 4096}}), "1 one_row, 2 stream_fragments, 65 eight_rows");
  }
  for (const DType dtype : {DType::f16, DType::bf16}) {
    EXPECT_EQ(routes_by_rows(kPortable, 4096, {{dtype, 4096}}), "1 one_row, 2 stream_fragments, 65 panels");
  }
  EXPECT_EQ(routes_by_rows(kPortable, 4096, {{DType::f32, 4096}}), "1 one_row, 2 eight_rows, 9 f32_tiles");
  EXPECT_EQ(routes_by_rows(kPortable, 4096, {{DType::f32, 128}}), "1 one_row, 2 eight_rows, 65 f32_tiles");
  EXPECT_EQ(routes_by_rows(kPortable, 37, {{DType::f16, 4096}}), "1 one_row, 2 eight_rows");
}

TEST(ProductChoice, WithoutMatrixUnitsFewRowsAreMultipliedAsBytes) {
  ProductDevice device = kPortable;
  device.has_matrix_unit = false;
  EXPECT_EQ(routes_by_rows(device, 4096, {{DType::q4_k, 4096}}),
            "1 one_row, 2 eight_rows, 17 stream_fragments, 65 panels");
}

TEST(ProductChoice, IsMadeForEachPart) {
  const std::vector<Product::Part> parts = {{DType::q4_k, 4096}, {DType::f32, 1024}};
  EXPECT_EQ(routes_by_rows(kHopper, 4096, parts, 0), "1 one_row, 2 hopper_tiles");
  EXPECT_EQ(routes_by_rows(kHopper, 4096, parts, 1), "1 one_row, 2 eight_rows, 65 f32_tiles");
  // What takes the whole product takes it whichever part is asked for.
  const std::vector<Product::Part> both = {{DType::q4_k, 4096}, {DType::q6_k, 1024}};
  EXPECT_EQ(routes_by_rows(kHopper, 4096, both, 0), routes_by_rows(kHopper, 4096, both, 1));
}

TEST(ProductChoice, BytesAreWantedByTheKernelsOfFewRowsAlone) {
  EXPECT_TRUE(takes_bytes(ProductRoute::one_row, DType::q4_k));
  EXPECT_TRUE(takes_bytes(ProductRoute::eight_rows, DType::mxfp4));
  EXPECT_FALSE(takes_bytes(ProductRoute::eight_rows, DType::f16));
  EXPECT_FALSE(takes_bytes(ProductRoute::panels, DType::q4_k));
  EXPECT_FALSE(takes_bytes(ProductRoute::stream_fragments, DType::q4_k));
}

// From how many rows on which tile is taken, as text: "1 0, 2 8".
std::string expert_tiles_by_rows(const ProductDevice& device, uint32_t n_used, uint32_t n_experts) {
  std::string out;
  for (uint32_t n_rows = 1, last = UINT32_MAX; n_rows <= 2048; n_rows++) {
    const uint32_t tile = choose_expert_tile(device, n_rows, n_used, n_experts);
    if (tile == last) continue;
    out += (out.empty() ? "" : ", ") + std::to_string(n_rows) + " " + std::to_string(tile);
    last = tile;
  }
  return out;
}

TEST(ProductChoice, TilesOfExpertsFollowTheRowsThatAnExpertHasOnAverage) {
  EXPECT_EQ(expert_tiles_by_rows(kHopper, 8, 128), "1 0, 2 8, 65 16, 193 64, 1025 128");
  EXPECT_EQ(expert_tiles_by_rows(kHopper, 4, 32), "1 0, 2 8, 33 16, 97 64, 513 128");
  EXPECT_EQ(expert_tiles_by_rows(kPortable, 8, 128), "1 0, 2 8, 65 16, 193 64");
}

TEST(ProductChoice, WithoutFragmentsOnlyPlainKernelsAreTaken) {
  ProductDevice device = kPortable;
  device.has_matrix_unit = device.has_fragments = false;
  for (const DType dtype : {DType::q4_k, DType::q8_0, DType::f16, DType::iq2_xs}) {
    EXPECT_EQ(routes_by_rows(device, 4096, {{dtype, 4096}}), "1 one_row, 2 eight_rows");
    for (const uint32_t tile_rows : kExpertTileRows) {
      EXPECT_EQ(choose_expert_product(device, dtype, 2048, tile_rows), ExpertRoute::few);
    }
  }
  EXPECT_EQ(routes_by_rows(device, 4096, {{DType::f32, 4096}}), "1 one_row, 2 eight_rows, 9 f32_tiles");
}

TEST(ProductChoice, ProductsWithExpertsTakeWhatTheirFormatAndWidthAllow) {
  for (const uint32_t tile_rows : kExpertTileRows) {
    EXPECT_EQ(choose_expert_product(kHopper, DType::q4_k, 2048, tile_rows), ExpertRoute::hopper);
    const ExpertRoute portable = tile_rows == 16   ? ExpertRoute::streamed
                                 : tile_rows == 64 ? ExpertRoute::fragments
                                                   : ExpertRoute::few;
    EXPECT_EQ(choose_expert_product(kHopper, DType::mxfp4, 2880, tile_rows), portable);  // no multiple of 256
    EXPECT_EQ(choose_expert_product(kPortable, DType::q4_k, 2048, tile_rows), portable);
    EXPECT_EQ(choose_expert_product(kHopper, DType::f32, 2048, tile_rows), ExpertRoute::few);
    EXPECT_EQ(choose_expert_product(kPortable, DType::f16, 37, tile_rows), ExpertRoute::few);
  }
  EXPECT_EQ(choose_expert_product(kHopper, DType::q4_k, 2048, 0), ExpertRoute::by_pair);
}

}  // namespace
}  // namespace rocmforge::gpu
