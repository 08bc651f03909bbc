#include "gguf/header_invariants.h"

#include <algorithm>

#include "base/utf8.h"
#include "gguf/format.h"

namespace rocmforge::gguf::testing {
namespace {

bool is_inside(std::span<const std::byte> part, const std::vector<std::byte>& whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

bool is_whole(const Value& value) {
  if (value.type() == ValueType::string) return value.as_string()->size() == value.bytes().size();
  if (value.type() != ValueType::array) return value.bytes().size() == value_type_bytes(value.type());
  if (value.element_type() == ValueType::array) return false;
  if (value.element_type() != ValueType::string) {
    return value.bytes().size() == value.n_elements() * value_type_bytes(value.element_type());
  }
  uint64_t n = 0;
  uint64_t n_bytes = 0;
  const StringArrayView texts = *value.as_strings();
  for (const std::string_view text : texts) {
    n++;
    n_bytes += 8 + text.size();
  }
  return n == value.n_elements() && n_bytes == value.bytes().size();
}

bool is_name(std::string_view name) {
  return !name.empty() && is_valid_utf8(name) && name.find('\0') == name.npos;
}

}  // namespace

std::string broken_invariant(const Header& header, uint64_t n_file_bytes) {
  const uint64_t n_header_bytes = header.bytes->size();
  if (n_header_bytes > n_file_bytes) return "the header is longer than the file";
  if (header.version < kOldestVersion || header.version > kVersion) return "an unknown version";
  if (!is_valid_alignment(header.alignment)) return "an impossible alignment";

  for (const Metadata::Entry& entry : header.metadata.entries()) {
    if (!is_name(entry.key)) return "a bad key";
    if (header.metadata.find(entry.key) != &entry.value) return "a key that is not found, or twice";
    if (!is_inside(as_bytes(entry.key), *header.bytes)) return "a key outside the header";
    if (!is_inside(entry.value.bytes(), *header.bytes)) return "a value outside the header";
    if (!is_whole(entry.value)) return "a value of the wrong size";
  }

  const uint64_t data_begin = (n_header_bytes + header.alignment - 1) / header.alignment * header.alignment;
  std::vector<TensorInfo> by_offset = header.tensors;
  std::sort(by_offset.begin(), by_offset.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return a.offset < b.offset; });
  uint64_t end = data_begin;
  for (const TensorInfo& info : by_offset) {
    if (!is_name(info.name) || !is_inside(as_bytes(info.name), *header.bytes)) return "a bad tensor name";
    if (info.n_dims < 1 || info.n_dims > kMaxDims) return "a bad dimension count";
    const DTypeInfo& type = dtype_info(info.dtype);
    if (type.use == DTypeUse::activation) return "a type that files do not hold";
    // In 128 bits nothing here can wrap.
    unsigned __int128 n_elements = 1;
    for (const uint64_t dim : info.dims) n_elements *= dim;
    if (n_elements == 0 || n_elements != info.n_elements) return "a wrong element count";
    if (info.dims[0] % type.block_elements != 0) return "a ragged row";
    if (n_elements / type.block_elements * type.block_bytes != info.n_bytes) return "a wrong size";
    if ((info.offset - data_begin) % header.alignment != 0) return "a misaligned tensor";
    if (info.offset < end) return "a tensor over the header or another tensor";
    if (info.n_bytes > n_file_bytes || info.offset > n_file_bytes - info.n_bytes) return "a tensor outside the file";
    end = info.offset + info.n_bytes;
  }
  return "";
}

}  // namespace rocmforge::gguf::testing
