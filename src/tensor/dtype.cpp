#include "tensor/dtype.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/check.h"

namespace rocmforge {
namespace {

constexpr auto kWeight = DTypeUse::weight;
constexpr auto kPlain = DTypeUse::plain;
constexpr auto kActivation = DTypeUse::activation;

constexpr std::array kTypes = {
    DTypeInfo{DType::f32, "f32", 1, 4, kWeight},
    DTypeInfo{DType::f16, "f16", 1, 2, kWeight},
    DTypeInfo{DType::q4_0, "q4_0", 32, 18, kWeight},
    DTypeInfo{DType::q4_1, "q4_1", 32, 20, kWeight},
    DTypeInfo{DType::q5_0, "q5_0", 32, 22, kWeight},
    DTypeInfo{DType::q5_1, "q5_1", 32, 24, kWeight},
    DTypeInfo{DType::q8_0, "q8_0", 32, 34, kWeight},
    DTypeInfo{DType::q8_1, "q8_1", 32, 36, kActivation},
    DTypeInfo{DType::q2_k, "q2_k", 256, 84, kWeight},
    DTypeInfo{DType::q3_k, "q3_k", 256, 110, kWeight},
    DTypeInfo{DType::q4_k, "q4_k", 256, 144, kWeight},
    DTypeInfo{DType::q5_k, "q5_k", 256, 176, kWeight},
    DTypeInfo{DType::q6_k, "q6_k", 256, 210, kWeight},
    DTypeInfo{DType::q8_k, "q8_k", 256, 292, kActivation},
    DTypeInfo{DType::iq2_xxs, "iq2_xxs", 256, 66, kWeight},
    DTypeInfo{DType::iq2_xs, "iq2_xs", 256, 74, kWeight},
    DTypeInfo{DType::iq3_xxs, "iq3_xxs", 256, 98, kWeight},
    DTypeInfo{DType::iq1_s, "iq1_s", 256, 50, kWeight},
    DTypeInfo{DType::iq4_nl, "iq4_nl", 32, 18, kWeight},
    DTypeInfo{DType::iq3_s, "iq3_s", 256, 110, kWeight},
    DTypeInfo{DType::iq2_s, "iq2_s", 256, 82, kWeight},
    DTypeInfo{DType::iq4_xs, "iq4_xs", 256, 136, kWeight},
    DTypeInfo{DType::i8, "i8", 1, 1, kPlain},
    DTypeInfo{DType::i16, "i16", 1, 2, kPlain},
    DTypeInfo{DType::i32, "i32", 1, 4, kPlain},
    DTypeInfo{DType::i64, "i64", 1, 8, kPlain},
    DTypeInfo{DType::f64, "f64", 1, 8, kPlain},
    DTypeInfo{DType::iq1_m, "iq1_m", 256, 56, kWeight},
    DTypeInfo{DType::bf16, "bf16", 1, 2, kWeight},
    DTypeInfo{DType::tq1_0, "tq1_0", 256, 54, kWeight},
    DTypeInfo{DType::tq2_0, "tq2_0", 256, 66, kWeight},
    DTypeInfo{DType::mxfp4, "mxfp4", 32, 17, kWeight},
    DTypeInfo{DType::nvfp4, "nvfp4", 64, 36, kWeight},
    DTypeInfo{DType::q1_0, "q1_0", 128, 18, kWeight},
    DTypeInfo{DType::q2_0, "q2_0", 64, 18, kWeight},
};

constexpr uint32_t kIdLimit = 43;
constexpr uint8_t kNoType = 255;

constexpr auto kIndexById = [] {
  std::array<uint8_t, kIdLimit> index{};
  index.fill(kNoType);
  for (size_t i = 0; i < kTypes.size(); i++) index[static_cast<uint32_t>(kTypes[i].dtype)] = static_cast<uint8_t>(i);
  return index;
}();

}  // namespace

std::span<const DTypeInfo> all_dtypes() {
  return kTypes;
}

const DTypeInfo& dtype_info(DType dtype) {
  const auto id = static_cast<uint32_t>(dtype);
  CHECK(id < kIdLimit && kIndexById[id] != kNoType);
  return kTypes[kIndexById[id]];
}

std::optional<DType> dtype_from_id(uint32_t id) {
  if (id >= kIdLimit || kIndexById[id] == kNoType) return std::nullopt;
  return static_cast<DType>(id);
}

std::string_view removed_dtype_name(uint32_t id) {
  switch (id) {
    case 4:
      return "q4_2";
    case 5:
      return "q4_3";
    case 31:
      return "q4_0_4_4";
    case 32:
      return "q4_0_4_8";
    case 33:
      return "q4_0_8_8";
    case 36:
      return "iq4_nl_4_4";
    case 37:
      return "iq4_nl_4_8";
    case 38:
      return "iq4_nl_8_8";
    default:
      return {};
  }
}

std::optional<DType> dtype_from_name(std::string_view name) {
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  for (const DTypeInfo& info : kTypes) {
    if (std::equal(name.begin(), name.end(), info.name.begin(), info.name.end(), same)) return info.dtype;
  }
  return std::nullopt;
}

}  // namespace rocmforge
