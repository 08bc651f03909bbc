// Any bytes as a GGUF file: refused with an error that names a byte, or read into a header whose invariants hold.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/check.h"
#include "gguf/header.h"
#include "gguf/header_invariants.h"
#include "gguf/split.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rocmforge;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto header = gguf::parse_header(gguf::memory_source(bytes, size, "input"));
  if (!header.ok()) {
    CHECK(header.error().message.find(" at byte ") != std::string::npos);
    return 0;
  }
  CHECK(gguf::testing::broken_invariant(*header, size).empty());
  const auto split = gguf::read_split(header->metadata, {});
  CHECK(!split.ok() || split->number < split->count);
  // Typed access to values of every type.
  for (const auto& [key, value] : header->metadata.entries()) {
    (void)header->metadata.u32(key).ok();
    (void)header->metadata.f32(key).ok();
    (void)header->metadata.f32_array(key).ok();
    (void)header->metadata.i32_array(key).ok();
    (void)header->metadata.strings(key).ok();
  }
  return 0;
}
