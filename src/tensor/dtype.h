#pragma once
// The element types a GGUF file can name: their ids, names, block sizes, and what this engine does with each.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace rocmforge {

// The values are the ids stored in files. Gaps are types that were removed from the format.
enum class DType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q8_1 = 9,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  q8_k = 15,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq1_s = 19,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  i8 = 24,
  i16 = 25,
  i32 = 26,
  i64 = 27,
  f64 = 28,
  iq1_m = 29,
  bf16 = 30,
  tq1_0 = 34,
  tq2_0 = 35,
  mxfp4 = 39,
  nvfp4 = 40,
  q1_0 = 41,
  q2_0 = 42,
};

enum class DTypeUse : uint8_t {
  weight,      // decodable: may hold a model's weights
  plain,       // sized and listed, refused as a weight (integers, f64)
  activation,  // an intermediate format (q8_1, q8_k) that no file should hold: refused by name
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;    // as in the enum
  uint32_t block_elements;  // elements per block along a row
  uint32_t block_bytes;
  DTypeUse use;
};

// Every type that has an id, in id order.
std::span<const DTypeInfo> all_dtypes();

const DTypeInfo& dtype_info(DType dtype);

// The type with this file id: nullopt for an unknown one and for one that was removed (see removed_dtype_name).
std::optional<DType> dtype_from_id(uint32_t id);

// The name of a type that older files used and the format dropped ("q4_2"), or an empty view.
std::string_view removed_dtype_name(uint32_t id);

// By name, upper or lower case: "Q4_K", "q4_k".
std::optional<DType> dtype_from_name(std::string_view name);

}  // namespace rocmforge
