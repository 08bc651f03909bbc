#include "gguf/writer.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "gguf/format.h"

namespace rocmforge::gguf {
namespace {

template <class T>
void append(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

void HeaderBuilder::append_string(std::string& to, std::string_view text) {
  append(to, static_cast<uint64_t>(text.size()));
  to += text;
}

void HeaderBuilder::set(std::string_view key, const Value& value) {
  Entry entry{std::string(key), value.type(), value.element_type(), value.n_elements(),
              std::string(as_text(value.bytes()))};
  const auto [position, is_new] = positions_.try_emplace(entry.key, entries_.size());
  if (is_new) {
    entries_.push_back(std::move(entry));
  } else {
    entries_[position->second] = std::move(entry);
  }
}

void HeaderBuilder::copy(const Metadata& metadata) {
  for (const Metadata::Entry& entry : metadata.entries()) {
    if (!entry.key.starts_with(kSplitPrefix)) set(entry.key, entry.value);
  }
}

void HeaderBuilder::add_tensor(std::string_view name, DType dtype, std::span<const uint64_t> dims) {
  tensors_.push_back({std::string(name), dtype, {dims.begin(), dims.end()}});
}

// A wrong one is replaced for the layout; reading the header back refuses it.
uint64_t HeaderBuilder::alignment() const {
  const auto position = positions_.find(kAlignmentKey);
  if (position == positions_.end()) return kDefaultAlignment;
  const Entry& entry = entries_[position->second];
  const uint64_t asked =
      Value(entry.type, entry.element_type, entry.n_elements, as_bytes(entry.value)).as_u64().value_or(0);
  return is_valid_alignment(asked) ? asked : kDefaultAlignment;
}

void HeaderBuilder::append_entry(std::string& to, const Entry& entry) {
  append_string(to, entry.key);
  append(to, entry.type);
  if (entry.type == ValueType::array) {
    append(to, entry.element_type);
    append(to, entry.n_elements);
  } else if (entry.type == ValueType::string) {
    append(to, static_cast<uint64_t>(entry.value.size()));
  }
  to += entry.value;
}

// Gives the bytes of its data.
Result<uint64_t> HeaderBuilder::append_tensor(std::string& to, const Tensor& tensor, uint64_t offset) {
  TensorInfo info;
  info.dtype = tensor.dtype;
  info.n_dims = static_cast<uint32_t>(tensor.dims.size());
  if (tensor.dims.size() <= kMaxDims) {
    std::copy(tensor.dims.begin(), tensor.dims.end(), info.dims.begin());
    if (auto good = measure(info); !good.ok()) {
      return std::move(good).error().in(fmt::format("gguf: tensor {}", in_quotes(tensor.name)));
    }
  }
  append_string(to, tensor.name);
  append(to, info.n_dims);
  for (const uint64_t dim : tensor.dims) append(to, dim);
  append(to, tensor.dtype);
  append(to, offset);
  return info.n_bytes;
}

Result<HeaderBuilder::Encoded> HeaderBuilder::encode(const Limits& limits) const {
  Encoded out;
  out.bytes += kMagic;
  append(out.bytes, kVersion);
  append(out.bytes, static_cast<uint64_t>(tensors_.size()));
  append(out.bytes, static_cast<uint64_t>(entries_.size()));
  for (const Entry& entry : entries_) append_entry(out.bytes, entry);

  const uint64_t unit = alignment();
  const Error too_large{ErrorCode::gguf_tensor_too_large, "gguf: the tensors together are more than 2^64 - 1 bytes"};
  CheckedU64 n_data_bytes = 0;
  for (const Tensor& tensor : tensors_) {
    if (!n_data_bytes.valid()) return too_large;
    const uint64_t n_bytes = TRY(append_tensor(out.bytes, tensor, n_data_bytes.value()));
    n_data_bytes = (n_data_bytes + n_bytes).rounded_up(unit);
  }
  const uint64_t n_header_bytes = out.bytes.size();
  out.bytes.resize(CheckedU64(n_header_bytes).rounded_up(unit).value());
  const CheckedU64 file_bytes = n_data_bytes + out.bytes.size();
  if (!file_bytes.valid()) return too_large;
  out.file_bytes = file_bytes.value();

  out.header =
      TRY(parse_header(memory_source(as_bytes(out.bytes), out.file_bytes, "the header to be written"), limits));
  CHECK(out.header.bytes->size() == n_header_bytes);
  return out;
}

Result<GgufWriter> GgufWriter::create(const std::string& path, const HeaderBuilder& header, WriteOptions options,
                                      const Limits& limits) {
  HeaderBuilder::Encoded encoded = TRY(header.encode(limits));
  FileWriter file = TRY(FileWriter::create(path, std::move(options)));
  TRY(file.write(as_bytes(encoded.bytes)));
  return GgufWriter(std::move(file), std::move(encoded.header), encoded.file_bytes, path);
}

// Where the tensor after the one that is due begins, or the file ends.
uint64_t GgufWriter::next_begin() const {
  return due_ + 1 < tensors().size() ? tensors()[due_ + 1].offset : file_bytes_;
}

Result<void> GgufWriter::write(std::span<const std::byte> piece) {
  if (piece.empty()) return {};
  if (due_ == tensors().size()) {
    return Error{ErrorCode::gguf_write,
                 fmt::format("gguf: file '{}': all tensors are complete, {} more bytes came", path_, piece.size())};
  }
  const TensorInfo& info = tensors()[due_];
  if (piece.size() > info.n_bytes - n_written_) {
    return Error{ErrorCode::gguf_write, fmt::format("gguf: file '{}': tensor {}: {} bytes after {} of its {}", path_,
                                                    in_quotes(info.name), piece.size(), n_written_, info.n_bytes)};
  }
  TRY(file_.write(piece));
  n_written_ += piece.size();
  if (n_written_ < info.n_bytes) return {};
  const std::vector<std::byte> padding(next_begin() - (info.offset + info.n_bytes));
  TRY(file_.write(padding));
  due_++;
  n_written_ = 0;
  return {};
}

Result<void> GgufWriter::finish() {
  if (due_ < tensors().size()) {
    const TensorInfo& info = tensors()[due_];
    return Error{ErrorCode::gguf_write, fmt::format("gguf: file '{}': tensor {}: {} of its {} bytes were written",
                                                    path_, in_quotes(info.name), n_written_, info.n_bytes)};
  }
  return file_.commit();
}

Result<void> GgufWriter::finish_sparse() {
  TRY(file_.resize(file_bytes_));
  return file_.commit();
}

}  // namespace rocmforge::gguf
