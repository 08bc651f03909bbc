#include "gguf/format.h"

#include <fmt/core.h>

#include <limits>

#include "base/checked.h"
#include "base/utf8.h"

namespace rocmforge::gguf {
namespace {

Result<void> check_name(std::string_view name, uint64_t max_bytes, ErrorCode code) {
  if (name.empty()) return Error{code, "the name is empty"};
  if (name.size() > max_bytes) {
    return Error{code, fmt::format("the name has {} bytes, more than the limit of {}", name.size(), max_bytes)};
  }
  if (name.find('\0') != name.npos) return Error{code, "the name holds a NUL byte"};
  if (!is_valid_utf8(name)) return Error{code, "the name is not valid UTF-8"};
  return {};
}

}  // namespace

Result<void> check_key(std::string_view key, const Limits& limits) {
  return check_name(key, limits.max_key_bytes, ErrorCode::gguf_bad_key);
}

Result<void> check_tensor_name(std::string_view name, const Limits& limits) {
  TRY(check_name(name, limits.max_tensor_name_bytes, ErrorCode::gguf_bad_tensor_name));
  // Programs name files after tensors; no model's tensor needs to climb out of a folder.
  if (name.find("../") != name.npos) {
    return Error{ErrorCode::gguf_bad_tensor_name, "the name holds '../'"};
  }
  return {};
}

Result<void> measure(TensorInfo& info) {
  CheckedU64 n_elements = 1;
  for (uint32_t i = 0; i < info.n_dims; i++) {
    if (info.dims[i] == 0) return Error{ErrorCode::gguf_bad_dimension, fmt::format("dimension {} is 0", i)};
    n_elements *= info.dims[i];
  }
  // Signed 64-bit counts are used for elements everywhere else.
  if (!n_elements.fits(std::numeric_limits<int64_t>::max())) {
    return Error{ErrorCode::gguf_bad_dimension, "the product of the dimensions is more than 2^63 - 1"};
  }
  const DTypeInfo& type = dtype_info(info.dtype);
  if (info.dims[0] % type.block_elements != 0) {
    return Error{ErrorCode::gguf_ragged_row,
                 fmt::format("a row of {} elements is not a whole number of {} blocks of {}", info.dims[0], type.name,
                             type.block_elements)};
  }
  const CheckedU64 n_bytes = CheckedU64(n_elements.value() / type.block_elements) * type.block_bytes;
  if (!n_bytes.fits(std::numeric_limits<int64_t>::max())) {
    return Error{ErrorCode::gguf_tensor_too_large,
                 fmt::format("{} elements of {} are more than 2^63 - 1 bytes", n_elements.value(), type.name)};
  }
  info.n_elements = n_elements.value();
  info.n_bytes = n_bytes.value();
  return {};
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kMost = 80;
  std::string out = "'";
  for (size_t at = 0; at < text.size() && at < kMost;) {
    const Utf8Step step = decode_utf8(text, at);
    const bool is_control = step.code_point < 0x20 || (step.code_point >= 0x7F && step.code_point < 0xA0);
    if (step.valid && !is_control) {
      out += text.substr(at, step.n_bytes);
    } else {
      for (const char byte : text.substr(at, step.n_bytes)) {
        out += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
      }
    }
    at += step.n_bytes;
  }
  if (text.size() > kMost) out += "...";
  return out += "'";
}

}  // namespace rocmforge::gguf
