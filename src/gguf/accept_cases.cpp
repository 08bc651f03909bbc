#include <fmt/core.h>

#include "gguf/bad_input_cases.h"

namespace rocmforge::gguf::testing {
namespace {

uint32_t id(ValueType type) {
  return static_cast<uint32_t>(type);
}

template <class Change>
AcceptCase changed(std::string name, Change change) {
  RawGguf file = small_gguf();
  change(file);
  return {std::move(name), std::move(file)};
}

AcceptCase with_key(std::string name, std::string key, RawValue value) {
  return changed(std::move(name), [&](RawGguf& f) { f.keys.push_back({std::move(key), std::move(value)}); });
}

void add_types_and_alignments(std::vector<AcceptCase>& cases) {
  for (const DTypeInfo& type : all_dtypes()) {
    if (type.use == DTypeUse::activation) continue;
    cases.push_back({fmt::format("one block of {}", type.name), gguf_of_type(type.dtype)});
    RawGguf full = gguf_of_type(type.dtype);
    full.tensors[0].dims = {type.block_elements, 2, 3, 5};
    full.n_data_bytes *= 30;
    cases.push_back({fmt::format("four dimensions of {}", type.name), full});
  }
  for (uint32_t unit = 1; unit <= 1u << 16; unit *= 2) {
    cases.push_back(changed(fmt::format("alignment {}", unit), [&](RawGguf& f) {
      f.keys.push_back({"general.alignment", raw_u32(unit)});
      f.alignment = unit;
      f.tensors[1].offset = std::max(64u, unit);
      f.n_data_bytes = f.tensors[1].offset + 128;
    }));
  }
}

void add_values(std::vector<AcceptCase>& cases) {
  cases.push_back(with_key("empty string", "k", raw_string("")));
  cases.push_back(with_key("string that is not UTF-8", "k", raw_string("\xFF\xFE")));
  cases.push_back(with_key("string with NUL", "k", raw_string(std::string("a\0b", 3))));
  cases.push_back(with_key("string of 16 MiB", "k", raw_string(std::string(16u << 20, 's'))));
  cases.push_back(with_key("not a number", "k", raw_number(ValueType::f32, __builtin_nanf(""))));
  cases.push_back(with_key("a million empty strings", "k",
                           raw_array(id(ValueType::string), 1'000'000, std::string(8'000'000, '\0'))));
  cases.push_back(
      with_key("array of 16 Mi bytes", "k", raw_array(id(ValueType::u8), 16u << 20, std::string(16u << 20, '\7'))));
  cases.push_back(with_key("key of one byte", "k", raw_u32(1)));
  cases.push_back(with_key("key of 65,535 bytes", std::string(65'535, 'k'), raw_u32(1)));
  cases.push_back(with_key("key in Greek", "\xCE\xBA\xCE\xBB\xCE\xB5\xCE\xB9\xCE\xB4\xCE\xAF", raw_u32(1)));
  cases.push_back(with_key("key in other case", "LLAMA.block_count", raw_u32(1)));
  for (uint32_t type = 0; type <= id(ValueType::f64); type++) {
    const auto value_type = static_cast<ValueType>(type);
    if (value_type == ValueType::array) continue;
    cases.push_back(
        with_key(fmt::format("empty array of {}", value_type_name(value_type)), "k", raw_array(type, 0, "")));
    const std::string zeros(value_type == ValueType::string ? 8 : value_type_bytes(value_type), '\0');
    cases.push_back(
        with_key(fmt::format("zero of {}", value_type_name(value_type)), "k", {type, RawBytes().text(zeros)}));
  }
}

void add_tensors(std::vector<AcceptCase>& cases) {
  cases.push_back(changed("tensor name of 63 bytes", [](RawGguf& f) { f.tensors[0].name = std::string(63, 'n'); }));
  cases.push_back(changed("tensor names that differ in case", [](RawGguf& f) { f.tensors[1].name = "A.weight"; }));
  cases.push_back(changed("tensor named like a key", [](RawGguf& f) { f.tensors[0].name = "llama.block_count"; }));
  cases.push_back(changed("tensor name with a slash", [](RawGguf& f) { f.tensors[0].name = "enc/layer/w"; }));
  cases.push_back(changed("gap between tensors", [](RawGguf& f) {
    f.tensors[1].offset = 1024;
    f.n_data_bytes = 1024 + 128;
  }));
  cases.push_back(changed("gap before the first", [](RawGguf& f) {
    f.tensors[0].offset = 320;
    f.n_data_bytes = 320 + 64;
  }));
  cases.push_back(changed("descending offsets", [](RawGguf& f) { f.tensors[0].offset = 192, f.n_data_bytes = 256; }));
  cases.push_back(changed("bytes after the last tensor", [](RawGguf& f) { f.n_data_bytes += 1000; }));
  cases.push_back(changed("last tensor without padding", [](RawGguf& f) {
    f.tensors[1].dims = {15, 1};
    f.n_data_bytes = 64 + 30;
  }));
}

void add_headers(std::vector<AcceptCase>& cases) {
  cases.push_back(changed("version 2", [](RawGguf& f) { f.version = 2; }));
  cases.push_back(changed("no keys", [](RawGguf& f) { f.keys.clear(); }));
  cases.push_back(changed("no tensors", [](RawGguf& f) { f.tensors.clear(); }));
  cases.push_back(changed("no tensors and no padding after the header", [](RawGguf& f) {
    f.tensors.clear();
    f.alignment = 1;
    f.n_data_bytes = 0;
  }));
  RawGguf empty;
  empty.alignment = 1;
  empty.n_data_bytes = 0;
  cases.push_back({"24 bytes: no keys, no tensors", empty});
  for (const auto& [name, file] : seed_files()) cases.push_back({fmt::format("seed {}", name), file});
}

}  // namespace

std::vector<AcceptCase> accept_cases() {
  std::vector<AcceptCase> cases;
  add_headers(cases);
  add_values(cases);
  add_tensors(cases);
  add_types_and_alignments(cases);
  return cases;
}

}  // namespace rocmforge::gguf::testing
