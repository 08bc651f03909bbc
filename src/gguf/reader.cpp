#include "gguf/reader.h"

#include <fmt/core.h>

#include <utility>

#include "gguf/format.h"
#include "gguf/split.h"

namespace rocmforge::gguf {
namespace {

Error file_error(ErrorCode code, std::string_view path, std::string_view fact) {
  return {code, fmt::format("gguf: file '{}': {}", path, fact)};
}

// Shard 0 is the file that was asked for.
Result<File> open_shard(const std::string& path, uint32_t number, uint32_t count, const FileCalls* calls) {
  auto file = File::open(path, calls);
  if (!file.ok()) {
    Error error = std::move(file).error().in("gguf");
    if (number == 0 || error.code != ErrorCode::file_not_found) return error;
    return file_error(ErrorCode::gguf_split_missing, path, fmt::format("shard {} of {} is missing", number + 1, count));
  }
  if (file->size() == 0) return file_error(ErrorCode::file_empty, path, "is empty");
  return file;
}

Result<Header> read_header(const File& file, const Limits& limits) {
  return parse_header({.name = fmt::format("file '{}'", file.path()),
                       .n_bytes = file.size(),
                       .read = [&](std::span<std::byte> to, uint64_t at) { return file.read_at(to, at); }},
                      limits);
}

Result<Split> read_split_of(const File& file, const Header& header, const Limits& limits) {
  auto split = read_split(header.metadata, limits);
  if (!split.ok()) return std::move(split).error().in(fmt::format("file '{}'", file.path()));
  return split;
}

// What the names of all shards begin with. REQUIRES: split.count > 1
Result<std::string> stem_of_first(const std::string& path, const Split& split) {
  const auto stem = split_stem(path, split);
  if (!stem) {
    return file_error(ErrorCode::gguf_split_mismatch, path,
                      fmt::format("is shard {} of {}, so its name must end in '{}'", split.number + 1, split.count,
                                  shard_path("", split.number, split.count)));
  }
  if (split.number != 0) {
    return file_error(ErrorCode::gguf_split_number, path,
                      fmt::format("is shard {} of {}; open the first, '{}'", split.number + 1, split.count,
                                  shard_path(*stem, 0, split.count)));
  }
  return std::string(*stem);
}

Result<void> check_belongs(const Split& shard, const Split& expected, const std::string& path) {
  if (shard == expected) return {};
  const auto text = [](const Split& split) {
    return fmt::format("shard {} of {} with {} tensors in all", split.number + 1, split.count,
                       split.n_tensors.value_or(0));
  };
  return file_error(ErrorCode::gguf_split_mismatch, path,
                    fmt::format("is {}; {} is needed here", text(shard), text(expected)));
}

}  // namespace

Result<GgufFile> GgufFile::open(const std::string& path, const Limits& limits, const FileCalls* calls) {
  GgufFile model;
  Limits left = limits;  // for the shards still to come
  Split first;
  std::string stem;
  for (uint32_t i = 0; i < first.count; i++) {
    const std::string shard_file = i == 0 ? path : shard_path(stem, i, first.count);
    File file = TRY(open_shard(shard_file, i, first.count, calls));
    Header header = TRY(read_header(file, left));
    const Split split = TRY(read_split_of(file, header, limits));
    if (i == 0) {
      first = split;
      if (first.count > 1) stem = TRY(stem_of_first(path, first));
      model.version_ = header.version;
      model.alignment_ = header.alignment;
      model.metadata_ = header.metadata;
    } else {
      TRY(check_belongs(split, {i, first.count, first.n_tensors}, shard_file));
    }
    left.max_tensors -= header.tensors.size();
    left.max_metadata_bytes -= header.bytes->size();
    model.add_shard(std::move(file), std::move(header));
  }
  if (first.n_tensors && *first.n_tensors != model.tensors_.size()) {
    return file_error(ErrorCode::gguf_split_mismatch, path,
                      fmt::format("{} tensors are announced by '{}', the shards hold {}", *first.n_tensors,
                                  kSplitTensorsKey, model.tensors_.size()));
  }
  TRY(model.index_tensors());
  return model;
}

void GgufFile::add_shard(File file, Header header) {
  const auto shard = static_cast<uint32_t>(shards_.size());
  for (TensorInfo& info : header.tensors) {
    info.shard = shard;
    tensors_.push_back(info);
  }
  header_bytes_ += header.bytes->size();
  headers_.push_back(std::move(header.bytes));
  shards_.push_back(std::move(file));
}

// Within a shard names are distinct already.
Result<void> GgufFile::index_tensors() {
  tensor_index_ = NameIndex(names_of(tensors(), &TensorInfo::name));
  const auto again = tensor_index_.first_duplicate();
  if (!again) return {};
  const TensorInfo& second = tensors_[*again];
  const auto at = second.name.data() - reinterpret_cast<const char*>(headers_[second.shard]->data());
  return file_error(ErrorCode::gguf_duplicate_tensor, shards_[second.shard].path(),
                    fmt::format("tensor {}: name at byte {}: stands in shard {} already", in_quotes(second.name), at,
                                find_tensor(second.name)->shard + 1));
}

const TensorInfo* GgufFile::find_tensor(std::string_view name) const {
  const auto position = tensor_index_.find(name);
  return position ? &tensors_[*position] : nullptr;
}

Result<const TensorInfo*> GgufFile::tensor(std::string_view name) const {
  if (const TensorInfo* info = find_tensor(name)) return info;
  return Error{ErrorCode::gguf_tensor_missing,
               fmt::format("gguf: file '{}': has no tensor {}", shards_[0].path(), in_quotes(name))};
}

uint64_t GgufFile::weight_bytes() const {
  // Every tensor lies inside its file and overlaps no other, so the sum is at most the files' sizes.
  uint64_t n_bytes = 0;
  for (const TensorInfo& info : tensors_) n_bytes += info.n_bytes;
  return n_bytes;
}

Result<void> GgufFile::override_metadata(std::span<const Override> overrides) {
  if (overrides.empty()) return {};
  metadata_ = TRY(with_overrides(metadata_, overrides));
  return {};
}

}  // namespace rocmforge::gguf
