#include <fmt/core.h>

#include <limits>

#include "gguf/bad_input_cases.h"

namespace rocmforge::gguf::testing {
namespace {

using enum ErrorCode;

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
constexpr uint64_t pow2(int n) {
  return uint64_t{1} << n;
}

uint32_t id(ValueType type) {
  return static_cast<uint32_t>(type);
}
uint32_t id(DType type) {
  return static_cast<uint32_t>(type);
}

constexpr ValueType kElementTypes[] = {ValueType::u8,     ValueType::i8,  ValueType::u16, ValueType::i16,
                                       ValueType::u32,    ValueType::i32, ValueType::f32, ValueType::boolean,
                                       ValueType::string, ValueType::u64, ValueType::i64, ValueType::f64};

// Everything is added through this: a name, a code, and the good file with one thing changed.
class Cases {
 public:
  void add(std::string name, ErrorCode code, RawGguf file) {
    list_.push_back({std::move(name), code, std::move(file)});
  }
  template <class Change>
  void add_changed(std::string name, ErrorCode code, Change change) {
    RawGguf file = small_gguf();
    change(file);
    add(std::move(name), code, std::move(file));
  }
  void add_key(std::string name, ErrorCode code, RawKey key) {
    add_changed(std::move(name), code, [&](RawGguf& file) { file.keys.push_back(key); });
  }
  std::vector<RejectCase> take() { return std::move(list_); }

 private:
  std::vector<RejectCase> list_;
};

void add_magic_and_versions(Cases& cases) {
  for (const char* magic : {"GGUE", "gguf", "FUGG", "lmgg", "tjgg", "vers", "PK\3\4"}) {
    cases.add_changed(fmt::format("magic {}", magic), gguf_bad_magic, [&](RawGguf& f) { f.magic = magic; });
  }
  cases.add_changed("magic of zeros", gguf_bad_magic, [](RawGguf& f) { f.magic = std::string(4, '\0'); });
  for (const uint32_t version : {0u, 1u, 4u, 5u, 255u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
    cases.add_changed(fmt::format("version {}", version), gguf_bad_version, [&](RawGguf& f) { f.version = version; });
  }
  for (const uint32_t version : {0x01000000u, 0x02000000u, 0x03000000u, 0x04000000u}) {
    cases.add_changed(fmt::format("version {:#x}", version), gguf_big_endian, [&](RawGguf& f) { f.version = version; });
  }
}

void add_counts(Cases& cases) {
  const uint64_t n_file_bytes = small_gguf().file().size();
  for (const uint64_t n : {uint64_t{65'537}, pow2(32), pow2(60) + 1, pow2(63), kMax}) {
    cases.add_changed(fmt::format("key count {}", n), gguf_too_many_keys, [&](RawGguf& f) { f.said_n_keys = n; });
    cases.add_changed(fmt::format("tensor count {}", n), gguf_too_many_tensors,
                      [&](RawGguf& f) { f.said_n_tensors = n; });
  }
  for (const uint64_t n : {n_file_bytes + 1, uint64_t{65'536}}) {
    cases.add_changed(fmt::format("key count {}", n), gguf_truncated, [&](RawGguf& f) { f.said_n_keys = n; });
    cases.add_changed(fmt::format("tensor count {}", n), gguf_truncated, [&](RawGguf& f) { f.said_n_tensors = n; });
  }
  RawGguf empty;
  empty.alignment = 1;
  empty.n_data_bytes = 0;
  for (const uint64_t n : {1u, 2u, 1000u}) {
    empty.said_n_keys = n;
    empty.said_n_tensors = 0;
    cases.add(fmt::format("{} keys and nothing after the counts", n), gguf_truncated, empty);
    empty.said_n_keys = 0;
    empty.said_n_tensors = n;
    cases.add(fmt::format("{} tensors and nothing after the counts", n), gguf_truncated, empty);
  }
}

void add_strings(Cases& cases) {
  const uint64_t too_long = (16u << 20) + 1;
  // More than what is left of the file, less than any limit.
  const uint64_t past_end = 4096;
  for (const uint64_t n : {kMax, kMax - 7, pow2(63), pow2(32), pow2(31), uint64_t{65'536}}) {
    cases.add_key(fmt::format("key of {} bytes", n), gguf_bad_key, {"k", raw_u32(1), n});
  }
  cases.add_key("key past the end", gguf_truncated, {"k", raw_u32(1), past_end});
  for (const uint64_t n : {kMax, kMax - 7, pow2(63), pow2(32), pow2(31), too_long}) {
    cases.add_key(fmt::format("string of {} bytes", n), gguf_string_too_long, {"k", raw_string("text", n)});
    RawValue array = raw_array(id(ValueType::string), 2, "");
    array.bytes.integer("", uint64_t{1}).text("a").integer("", n).text("b");
    cases.add_key(fmt::format("array element of {} bytes", n), gguf_string_too_long, {"k", array});
  }
  cases.add_key("string past the end", gguf_truncated, {"k", raw_string("text", past_end)});
  cases.add_key("array element past the end", gguf_truncated,
                {"k", raw_array(id(ValueType::string), 1, RawBytes().integer("", past_end).bytes())});

  // The string takes all that is left, so the tensors are missing.
  RawGguf all = small_gguf();
  all.keys.push_back({"k", raw_string("")});
  const uint64_t n_rest = RawGguf(all).file().size() - all.header().bytes().size();
  const uint64_t n_tensors_bytes = all.header().bytes().size() - [&] {
    RawGguf without = all;
    without.tensors.clear();
    return without.header().bytes().size();
  }();
  all.keys.back().value = raw_string("", n_rest + n_tensors_bytes);
  cases.add("string that takes the whole rest", gguf_truncated, all);

  for (const uint64_t n : {kMax, pow2(63), pow2(31), pow2(20), uint64_t{65}, uint64_t{64}}) {
    cases.add_changed(fmt::format("tensor name of {} bytes", n), gguf_bad_tensor_name,
                      [&](RawGguf& f) { f.tensors[0].said_name_length = n; });
  }
  RawGguf last;
  last.tensors = {{"t", {1}, 0, 0}};
  last.tensors[0].said_name_length = 60;
  last.alignment = 1;
  last.n_data_bytes = 0;
  cases.add("tensor name past the end", gguf_truncated, last);
}

void add_names(Cases& cases) {
  const std::pair<const char*, std::string> bad[] = {
      {"empty", ""},
      {"with NUL", std::string("t\0x", 3)},
      {"only NUL", std::string(1, '\0')},
      {"ending in NUL", std::string("abc\0", 4)},
      {"overlong UTF-8", "a\xC0\x80"},
      {"half a surrogate", "\xED\xA0\x80"},
      {"above U+10FFFF", "\xF4\x90\x80\x80"},
      {"cut UTF-8", "caf\xC3"},
      {"lone continuation", "\x80"},
      {"Latin-1", "\xFFname"},
  };
  for (const auto& [what, name] : bad) {
    cases.add_key(fmt::format("key {}", what), gguf_bad_key, {name, raw_u32(1)});
    cases.add_changed(fmt::format("tensor name {}", what), gguf_bad_tensor_name,
                      [&](RawGguf& f) { f.tensors[1].name = name; });
  }
  for (const char* name : {"../x", "a/../../x", "../"}) {
    cases.add_changed(fmt::format("tensor name {}", name), gguf_bad_tensor_name,
                      [&](RawGguf& f) { f.tensors[0].name = name; });
  }
  cases.add_changed("tensor name of 64 real bytes", gguf_bad_tensor_name,
                    [&](RawGguf& f) { f.tensors[0].name = std::string(64, 'n'); });
  cases.add_key("key of 65,536 real bytes", gguf_bad_key, {std::string(65'536, 'k'), raw_u32(1)});

  cases.add_key("same key again", gguf_duplicate_key, {"llama.block_count", raw_u32(2)});
  cases.add_key("same key, other type", gguf_duplicate_key, {"general.architecture", raw_u32(2)});
  cases.add_changed("same key at once", gguf_duplicate_key, [](RawGguf& f) { f.keys[1] = f.keys[0]; });
  cases.add_changed("alignment twice", gguf_duplicate_key,
                    [](RawGguf& f) { f.keys[0] = f.keys[1] = {"general.alignment", raw_u32(32)}; });
  cases.add_changed("same tensor again", gguf_duplicate_tensor, [](RawGguf& f) { f.tensors[1].name = "a.weight"; });
  cases.add_changed("same tensor, same place", gguf_duplicate_tensor, [](RawGguf& f) { f.tensors[1] = f.tensors[0]; });
}

void add_value_types(Cases& cases) {
  for (const uint32_t type : {13u, 14u, 100u, 255u, 256u, 0x80000000u, 0xFFFFFFFFu}) {
    cases.add_key(fmt::format("value type {}", type), gguf_bad_value_type, {"k", {type, RawBytes().text("12345678")}});
    cases.add_key(fmt::format("element type {}", type), gguf_bad_value_type, {"k", raw_array(type, 1, "12345678")});
  }
  for (const int depth : {1, 2, 100'000}) {
    std::string inner;
    for (int i = 0; i < depth; i++) inner += raw_array(id(ValueType::array), 1, "").bytes.bytes();
    cases.add_key(fmt::format("arrays nested {} deep", depth), gguf_nested_array,
                  {"k", {id(ValueType::array), RawBytes().text(inner)}});
  }
  for (const int byte : {2, 3, 127, 128, 255}) {
    const std::string bad(1, static_cast<char>(byte));
    cases.add_key(fmt::format("bool {}", byte), gguf_bad_bool, {"k", {id(ValueType::boolean), RawBytes().text(bad)}});
    cases.add_key(fmt::format("bool {} in an array", byte), gguf_bad_bool,
                  {"k", raw_array(id(ValueType::boolean), 3, std::string("\1\0", 2) + bad)});
  }
}

void add_arrays(Cases& cases) {
  for (const ValueType type : kElementTypes) {
    const std::string name(value_type_name(type));
    for (const uint64_t n : {uint64_t{(16u << 20) + 1}, pow2(32), pow2(61), pow2(62), kMax}) {
      cases.add_key(fmt::format("array of {} {}", n, name), gguf_array_too_long, {"k", raw_array(id(type), n, "")});
    }
    for (const uint64_t n : {uint64_t{4096}, uint64_t{16u << 20}}) {
      cases.add_key(fmt::format("array of {} {} past the end", n, name), gguf_truncated,
                    {"k", raw_array(id(type), n, "")});
    }
  }
}

void add_alignments(Cases& cases) {
  for (const uint32_t n : {0u, 3u, 13u, 24u, 33u, 65'535u, 65'537u, 1u << 17, 1u << 31, 0xFFFFFFFFu}) {
    cases.add_key(fmt::format("alignment {}", n), gguf_bad_alignment, {"general.alignment", raw_u32(n)});
  }
  for (const ValueType type : kElementTypes) {
    if (type == ValueType::u32) continue;
    // 32 in every width of integer; a bool of 1; a string of length 0.
    std::string bytes(type == ValueType::string ? 8 : value_type_bytes(type), '\0');
    if (type == ValueType::boolean) bytes[0] = 1;
    if (type != ValueType::string && type != ValueType::boolean) bytes[0] = 32;
    cases.add_key(fmt::format("alignment of type {}", value_type_name(type)), gguf_bad_alignment,
                  {"general.alignment", {id(type), RawBytes().text(bytes)}});
  }
  cases.add_key("alignment of type array", gguf_bad_alignment,
                {"general.alignment", raw_array(id(ValueType::u32), 1, std::string("\40\0\0\0", 4))});
}

void add_dimension_counts_and_types(Cases& cases) {
  for (const uint32_t n : {0u, 5u, 6u, 255u, 1u << 31, 0xFFFFFFFFu}) {
    cases.add_changed(fmt::format("{} dimensions", n), gguf_bad_dimension_count,
                      [&](RawGguf& f) { f.tensors[0].said_n_dims = n; });
  }
  for (const uint32_t type : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u}) {
    cases.add_changed(fmt::format("removed tensor type {}", type), gguf_removed_tensor_type,
                      [&](RawGguf& f) { f.tensors[0].type = type; });
  }
  for (const uint32_t type :
       {id(DType::q8_1), id(DType::q8_k), 43u, 44u, 100u, 255u, 256u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu}) {
    cases.add_changed(fmt::format("tensor type {}", type), gguf_bad_tensor_type,
                      [&](RawGguf& f) { f.tensors[0].type = type; });
  }
}

// Shapes whose size wraps, for one type: each type takes its own way through the arithmetic.
void add_shapes(Cases& cases, const DTypeInfo& type) {
  const auto add = [&](std::string_view what, ErrorCode code, std::vector<uint64_t> dims) {
    RawGguf file = gguf_of_type(type.dtype);
    file.tensors[0].dims = std::move(dims);
    cases.add(fmt::format("{} {}", type.name, what), code, std::move(file));
  };
  const uint64_t block = type.block_elements;
  add("{0}", gguf_bad_dimension, {0});
  add("{block, 0}", gguf_bad_dimension, {block, 0});
  add("{block, 1, 0}", gguf_bad_dimension, {block, 1, 0});
  add("{block, 1, 1, 0}", gguf_bad_dimension, {block, 1, 1, 0});
  add("{0, 2^63}", gguf_bad_dimension, {0, pow2(63)});
  add("{2^32, 2^32}", gguf_bad_dimension, {pow2(32), pow2(32)});
  add("{2^31, 2^31, 4}", gguf_bad_dimension, {pow2(31), pow2(31), 4});
  add("{2^16, 2^16, 2^16, 2^16}", gguf_bad_dimension, {pow2(16), pow2(16), pow2(16), pow2(16)});
  add("{2^63-1, 2}", gguf_bad_dimension, {pow2(63) - 1, 2});
  add("{2^63}", gguf_bad_dimension, {pow2(63)});
  add("{2^40, 2^24}", gguf_bad_dimension, {pow2(40), pow2(24)});
  add("{2^33-4, 2^33-4}", gguf_bad_dimension, {pow2(33) - 4, pow2(33) - 4});
  add("{2^64-256}", gguf_bad_dimension, {kMax - 255});
  // 2^62 elements: more than 2^63 - 1 bytes for types of two bytes and up, more than the file for the others.
  const bool wide = type.block_bytes >= 2 * type.block_elements;
  add("{256, 2^54}", wide ? gguf_tensor_too_large : gguf_tensor_out_of_file, {256, pow2(54)});
  add("one row more than the data", gguf_tensor_out_of_file, {block, 2});
  if (block > 1) {
    add("{1}", gguf_ragged_row, {1});
    add("half a block", gguf_ragged_row, {block / 2, 2});
    add("a block and one", gguf_ragged_row, {block + 1});
    add("{4, 2^30-1, 2^30+1}", gguf_ragged_row, {4, pow2(30) - 1, pow2(30) + 1});
  }
}

void add_data(Cases& cases, const DTypeInfo& type) {
  const auto add = [&](std::string_view what, ErrorCode code, auto change) {
    RawGguf file = gguf_of_type(type.dtype);
    change(file);
    cases.add(fmt::format("{} {}", type.name, what), code, std::move(file));
  };
  add("data one byte short", gguf_tensor_out_of_file, [](RawGguf& f) { f.n_data_bytes--; });
  add("no data", gguf_tensor_out_of_file, [](RawGguf& f) { f.n_data_bytes = 0; });
  add("file ends with the header", gguf_tensor_out_of_file, [](RawGguf& f) { f.n_data_bytes = 0, f.alignment = 1; });
  add("offset of one unit", gguf_tensor_out_of_file, [](RawGguf& f) { f.tensors[0].offset = 32; });
  add("offset 2^64-32", gguf_tensor_out_of_file, [](RawGguf& f) { f.tensors[0].offset = kMax - 31; });
  add("offset 2^63", gguf_tensor_out_of_file, [](RawGguf& f) { f.tensors[0].offset = pow2(63); });
  add("offset 1", gguf_misaligned_tensor, [](RawGguf& f) { f.tensors[0].offset = 1; });
  add("offset 2^64-1", gguf_misaligned_tensor, [](RawGguf& f) { f.tensors[0].offset = kMax; });
}

void add_placement(Cases& cases) {
  cases.add_changed("offset aligned to 32 where 64 is asked", gguf_misaligned_tensor, [](RawGguf& f) {
    f.keys.push_back({"general.alignment", raw_u32(64)});
    f.tensors[1].offset = 96;
    f.alignment = 64;
  });
  cases.add_changed("both at the same place", gguf_tensor_overlap, [](RawGguf& f) { f.tensors[1].offset = 0; });
  cases.add_changed("second begins inside the first", gguf_tensor_overlap,
                    [](RawGguf& f) { f.tensors[1].offset = 32; });
  cases.add_changed("first begins inside the second", gguf_tensor_overlap,
                    [](RawGguf& f) { f.tensors[0].offset = 64 + 96, f.n_data_bytes = 256; });
  cases.add_changed("one inside the other", gguf_tensor_overlap, [](RawGguf& f) { f.tensors[0].offset = 96; });
  cases.add_changed("overlap by one byte", gguf_tensor_overlap, [](RawGguf& f) {
    f.keys.push_back({"general.alignment", raw_u32(1)});
    f.alignment = 1;
    f.tensors[1].offset = 63;
  });
  cases.add_changed("third overlaps the first", gguf_tensor_overlap,
                    [](RawGguf& f) { f.tensors.push_back({"c", {1}, id(DType::i8), 32}); });
  cases.add_changed("two of 2^63-64 bytes", gguf_tensor_out_of_file, [](RawGguf& f) {
    for (RawTensor& tensor : f.tensors) tensor = {tensor.name, {pow2(63) - 64}, id(DType::i8), 0};
  });
  cases.add_changed("2^64-16 bytes", gguf_tensor_too_large,
                    [](RawGguf& f) { f.tensors[0].dims = {4, pow2(30) - 1, pow2(30) + 1}; });
  cases.add_changed("f32 of 2^64/4 elements", gguf_tensor_too_large,
                    [](RawGguf& f) { f.tensors[0].dims = {kMax / 4}; });
  cases.add_changed("an f16 shape over 1 MB of data", gguf_tensor_out_of_file, [](RawGguf& f) {
    f.tensors[1].dims = {4096, 32000};
    f.n_data_bytes = 1 << 20;
  });
  cases.add_changed("a tensor in the file's last padding", gguf_tensor_out_of_file, [](RawGguf& f) {
    f.tensors.push_back({"c", {16}, id(DType::f32), 192});
    f.n_data_bytes = 192 + 63;
  });
}

}  // namespace

std::vector<RejectCase> reject_cases() {
  Cases cases;
  add_magic_and_versions(cases);
  add_counts(cases);
  add_strings(cases);
  add_names(cases);
  add_value_types(cases);
  add_arrays(cases);
  add_alignments(cases);
  add_dimension_counts_and_types(cases);
  for (const DTypeInfo& type : all_dtypes()) {
    if (type.use == DTypeUse::activation) continue;
    add_shapes(cases, type);
    add_data(cases, type);
  }
  add_placement(cases);
  return cases.take();
}

}  // namespace rocmforge::gguf::testing
