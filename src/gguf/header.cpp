#include "gguf/header.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "base/checked.h"
#include "gguf/format.h"
#include "gguf/header_cursor.h"

namespace rocmforge::gguf {
namespace {

using Extent = HeaderCursor::Extent;

// An entry before its views can be made.
struct ParsedKey {
  Extent name;
  ValueType type;
  ValueType element_type;
  uint64_t n_elements;
  Extent value;
};

struct ParsedTensor {
  Extent name;
  uint64_t offset_at;  // where the offset field stands
  TensorInfo info;     // offset still counts from the start of the data
};

class HeaderParser {
 public:
  HeaderParser(const HeaderSource& source, const Limits& limits)
      : source_(source), limits_(limits), cursor_(source, limits) {}

  Result<Header> parse() {
    TRY(parse_magic());
    TRY(parse_version());
    const uint64_t n_tensors =
        TRY(parse_count("tensor count", limits_.max_tensors, ErrorCode::gguf_too_many_tensors, kMinTensorBytes));
    const uint64_t n_keys =
        TRY(parse_count("key count", limits_.max_keys, ErrorCode::gguf_too_many_keys, kMinKeyBytes));
    keys_.reserve(n_keys);
    for (uint64_t i = 0; i < n_keys; i++) TRY(parse_key(i));
    TRY(check_distinct("key", keys_, ErrorCode::gguf_duplicate_key));
    tensors_.reserve(n_tensors);
    for (uint64_t i = 0; i < n_tensors; i++) TRY(parse_tensor(i));
    TRY(check_distinct("tensor", tensors_, ErrorCode::gguf_duplicate_tensor));
    TRY(place_tensors());
    TRY(check_overlaps());
    return finish();
  }

 private:
  Result<void> parse_magic();
  Result<void> parse_version();
  Result<uint64_t> parse_count(const char* field, uint64_t limit, ErrorCode too_many, uint64_t min_entry_bytes);
  using NameCheck = Result<void> (*)(std::string_view, const Limits&);
  Result<Extent> parse_name(const char* kind, uint64_t max_bytes, ErrorCode bad, NameCheck check);
  Result<void> parse_key(uint64_t number);
  Result<ValueType> parse_value_type(const char* field);
  Result<void> parse_array(ParsedKey& entry);
  Result<Extent> parse_strings(uint64_t n);
  Result<Extent> parse_string(const char* field);
  Result<void> check_bools(Extent value);
  Result<void> parse_alignment(const ParsedKey& entry);
  Result<void> parse_tensor(uint64_t number);
  Result<DType> parse_tensor_type();
  template <class Entry>
  Result<void> check_distinct(const char* kind, const std::vector<Entry>& entries, ErrorCode duplicate);
  Result<void> place_tensors();
  Result<void> check_overlaps();
  Header finish();

  Error fail(ErrorCode code, const char* field, uint64_t at, std::string_view fact) const {
    return cursor_.fail(code, field, at, fact);
  }

  const HeaderSource& source_;
  const Limits& limits_;
  HeaderCursor cursor_;
  uint32_t version_ = 0;
  uint32_t alignment_ = kDefaultAlignment;
  std::vector<ParsedKey> keys_;
  std::vector<ParsedTensor> tensors_;
};

Result<void> HeaderParser::parse_magic() {
  const std::string_view magic = cursor_.text(TRY(cursor_.take(kMagic.size(), "magic")));
  if (magic == kMagic) return {};
  std::string fact = fmt::format("{} is not {}", in_quotes(magic), in_quotes(kMagic));
  for (const std::string_view old : {"lmgg", "fmgg", "tjgg", "algg"}) {
    if (magic == old) fact += ": a format from before GGUF; convert the model again";
  }
  if (magic == "vers") fact += ": perhaps a Git LFS pointer; fetch the file it stands for";
  return fail(ErrorCode::gguf_bad_magic, "magic", 0, fact);
}

Result<void> HeaderParser::parse_version() {
  const uint64_t at = cursor_.at();
  version_ = TRY(cursor_.read<uint32_t>("version"));
  if (version_ >= kOldestVersion && version_ <= kVersion) return {};
  if (version_ == 0) return fail(ErrorCode::gguf_bad_version, "version", at, "there is no version 0");
  if (version_ == 1) {
    return fail(ErrorCode::gguf_bad_version, "version", at,
                "version 1 has 32-bit lengths and is no longer read; convert the model again");
  }
  // A small number with its bytes reversed.
  if (const uint32_t swapped = __builtin_bswap32(version_); swapped <= 0xFFFF) {
    return fail(ErrorCode::gguf_big_endian, "version", at,
                fmt::format("version {} in big-endian order; only little-endian files are read", swapped));
  }
  return fail(ErrorCode::gguf_bad_version, "version", at,
              fmt::format("version {} is newer than the newest known, {}", version_, kVersion));
}

Result<uint64_t> HeaderParser::parse_count(const char* field, uint64_t limit, ErrorCode too_many,
                                           uint64_t min_entry_bytes) {
  const uint64_t at = cursor_.at();
  const uint64_t n = TRY(cursor_.read<uint64_t>(field));
  if (n > limit) return fail(too_many, field, at, fmt::format("{} is more than the limit of {}", n, limit));
  if (!(CheckedU64(n) * min_entry_bytes).fits(cursor_.n_left())) {
    return fail(ErrorCode::gguf_truncated, field, at,
                fmt::format("{} entries do not fit the {} bytes that follow", n, cursor_.n_left()));
  }
  return n;
}

// 8 bytes of length, then the text.
Result<Extent> HeaderParser::parse_string(const char* field) {
  const uint64_t at = cursor_.at();
  const uint64_t n_bytes = TRY(cursor_.read<uint64_t>(field));
  if (n_bytes > limits_.max_string_bytes) {
    return fail(ErrorCode::gguf_string_too_long, field, at,
                fmt::format("a string of {} bytes, more than the limit of {}", n_bytes, limits_.max_string_bytes));
  }
  return cursor_.take(n_bytes, field);
}

Result<Extent> HeaderParser::parse_name(const char* kind, uint64_t max_bytes, ErrorCode bad, NameCheck check) {
  const uint64_t at = cursor_.at();
  const uint64_t n_bytes = TRY(cursor_.read<uint64_t>("name length"));
  if (n_bytes > max_bytes) {
    return fail(bad, "name length", at, fmt::format("{} bytes, more than the limit of {}", n_bytes, max_bytes));
  }
  const Extent name = TRY(cursor_.take(n_bytes, "name"));
  if (auto good = check(cursor_.text(name), limits_); !good.ok()) {
    return fail(good.error().code, "name", name.offset, good.error().message);
  }
  cursor_.enter(kind, name);
  return name;
}

Result<void> HeaderParser::parse_key(uint64_t number) {
  cursor_.enter("key", number);
  ParsedKey entry{};
  entry.name = TRY(parse_name("key", limits_.max_key_bytes, ErrorCode::gguf_bad_key, check_key));
  entry.type = TRY(parse_value_type("type"));
  entry.element_type = entry.type;
  entry.n_elements = 1;
  if (entry.type == ValueType::array) {
    TRY(parse_array(entry));
  } else if (entry.type == ValueType::string) {
    entry.value = TRY(parse_string("value"));
  } else {
    entry.value = TRY(cursor_.take(value_type_bytes(entry.type), "value"));
  }
  if (entry.element_type == ValueType::boolean) TRY(check_bools(entry.value));
  if (cursor_.text(entry.name) == kAlignmentKey) TRY(parse_alignment(entry));
  keys_.push_back(entry);
  cursor_.leave();
  return {};
}

Result<ValueType> HeaderParser::parse_value_type(const char* field) {
  const uint64_t at = cursor_.at();
  const uint32_t id = TRY(cursor_.read<uint32_t>(field));
  if (const auto type = value_type_from_id(id)) return *type;
  return fail(ErrorCode::gguf_bad_value_type, field, at, fmt::format("{} is no value type", id));
}

Result<void> HeaderParser::parse_array(ParsedKey& entry) {
  const uint64_t type_at = cursor_.at();
  entry.element_type = TRY(parse_value_type("element type"));
  if (entry.element_type == ValueType::array) {
    return fail(ErrorCode::gguf_nested_array, "element type", type_at, "arrays of arrays are not read");
  }
  const uint64_t length_at = cursor_.at();
  const uint64_t n = TRY(cursor_.read<uint64_t>("array length"));
  if (n > limits_.max_array_elements) {
    return fail(ErrorCode::gguf_array_too_long, "array length", length_at,
                fmt::format("{} elements, more than the limit of {}", n, limits_.max_array_elements));
  }
  const bool holds_strings = entry.element_type == ValueType::string;
  const CheckedU64 min_bytes = CheckedU64(n) * (holds_strings ? 8 : value_type_bytes(entry.element_type));
  if (!min_bytes.fits(cursor_.n_left())) {
    return fail(ErrorCode::gguf_truncated, "array length", length_at,
                fmt::format("{} elements of {} do not fit the {} bytes that follow", n,
                            value_type_name(entry.element_type), cursor_.n_left()));
  }
  entry.n_elements = n;
  entry.value = holds_strings ? TRY(parse_strings(n)) : TRY(cursor_.take(min_bytes.value(), "value"));
  return {};
}

Result<Extent> HeaderParser::parse_strings(uint64_t n) {
  const uint64_t begin = cursor_.at();
  for (uint64_t i = 0; i < n; i++) TRY(parse_string("element"));
  return Extent{begin, cursor_.at() - begin};
}

Result<void> HeaderParser::check_bools(Extent value) {
  const auto bytes = cursor_.bytes(value);
  const auto wrong = std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
  if (wrong == bytes.end()) return {};
  return fail(ErrorCode::gguf_bad_bool, "value", value.offset + static_cast<uint64_t>(wrong - bytes.begin()),
              fmt::format("{} is neither 0 nor 1", std::to_integer<int>(*wrong)));
}

Result<void> HeaderParser::parse_alignment(const ParsedKey& entry) {
  if (entry.type != ValueType::u32) {
    return fail(ErrorCode::gguf_bad_alignment, "value", entry.value.offset,
                fmt::format("its type is {}, it must be u32", value_type_name(entry.type)));
  }
  alignment_ = load_le<uint32_t>(cursor_.bytes(entry.value).data());
  if (is_valid_alignment(alignment_)) return {};
  return fail(ErrorCode::gguf_bad_alignment, "value", entry.value.offset,
              fmt::format("alignment {} is not a power of two up to {}", alignment_, kMaxAlignment));
}

Result<void> HeaderParser::parse_tensor(uint64_t number) {
  cursor_.enter("tensor", number);
  ParsedTensor tensor{};
  tensor.name =
      TRY(parse_name("tensor", limits_.max_tensor_name_bytes, ErrorCode::gguf_bad_tensor_name, check_tensor_name));
  TensorInfo& info = tensor.info;
  const uint64_t n_dims_at = cursor_.at();
  info.n_dims = TRY(cursor_.read<uint32_t>("dimension count"));
  if (info.n_dims < 1 || info.n_dims > kMaxDims) {
    return fail(ErrorCode::gguf_bad_dimension_count, "dimension count", n_dims_at,
                fmt::format("{} is not 1 to {}", info.n_dims, kMaxDims));
  }
  const uint64_t dims_at = cursor_.at();
  for (uint32_t i = 0; i < info.n_dims; i++) info.dims[i] = TRY(cursor_.read<uint64_t>("dimension"));
  info.dtype = TRY(parse_tensor_type());
  if (auto good = measure(info); !good.ok()) {
    return fail(good.error().code, "dimensions", dims_at, good.error().message);
  }
  tensor.offset_at = cursor_.at();
  info.offset = TRY(cursor_.read<uint64_t>("offset"));
  if (info.offset % alignment_ != 0) {
    return fail(ErrorCode::gguf_misaligned_tensor, "offset", tensor.offset_at,
                fmt::format("{} is not a multiple of the alignment, {}", info.offset, alignment_));
  }
  tensors_.push_back(tensor);
  cursor_.leave();
  return {};
}

Result<DType> HeaderParser::parse_tensor_type() {
  const uint64_t at = cursor_.at();
  const uint32_t id = TRY(cursor_.read<uint32_t>("type"));
  if (const auto removed = removed_dtype_name(id); !removed.empty()) {
    return fail(ErrorCode::gguf_removed_tensor_type, "type", at,
                fmt::format("{} ({}) was removed from the format; convert the model again", id, removed));
  }
  const auto dtype = dtype_from_id(id);
  if (!dtype) return fail(ErrorCode::gguf_bad_tensor_type, "type", at, fmt::format("{} is no tensor type", id));
  const DTypeInfo& type = dtype_info(*dtype);
  if (type.use == DTypeUse::activation) {
    return fail(ErrorCode::gguf_bad_tensor_type, "type", at,
                fmt::format("{} ({}) is a format of intermediate results, not of files", id, type.name));
  }
  return *dtype;
}

template <class Entry>
Result<void> HeaderParser::check_distinct(const char* kind, const std::vector<Entry>& entries, ErrorCode duplicate) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const Entry& entry : entries) names.push_back(cursor_.text(entry.name));
  const NameIndex index(names);
  const auto again = index.first_duplicate();
  if (!again) return {};
  const Extent first = entries[*index.find(names[*again])].name;
  cursor_.enter(kind, entries[*again].name);
  return fail(duplicate, "name", entries[*again].name.offset, fmt::format("stands at byte {} already", first.offset));
}

// Offsets count from the end of the header, rounded up to the alignment; from here on, from the start of the file.
Result<void> HeaderParser::place_tensors() {
  const CheckedU64 data_begin = CheckedU64(cursor_.at()).rounded_up(alignment_);
  for (ParsedTensor& tensor : tensors_) {
    const CheckedU64 begin = data_begin + tensor.info.offset;
    if (!(begin + tensor.info.n_bytes).fits(source_.n_bytes)) {
      cursor_.enter("tensor", tensor.name);
      return fail(
          ErrorCode::gguf_tensor_out_of_file, "offset", tensor.offset_at,
          fmt::format("{} bytes at offset {} end after the file, which has {} bytes of data: an incomplete download?",
                      tensor.info.n_bytes, tensor.info.offset,
                      (CheckedU64(source_.n_bytes) - data_begin).get().value_or(0)));
    }
    tensor.info.offset = begin.value();
  }
  return {};
}

// Tensors may lie in any order and leave gaps, but share no byte.
Result<void> HeaderParser::check_overlaps() {
  std::vector<size_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return tensors_[a].info.offset < tensors_[b].info.offset; });
  for (size_t i = 1; i < order.size(); i++) {
    const ParsedTensor& low = tensors_[order[i - 1]];
    const ParsedTensor& high = tensors_[order[i]];
    const uint64_t low_end = low.info.offset + low.info.n_bytes;
    if (low_end <= high.info.offset) continue;
    cursor_.enter("tensor", high.name);
    return fail(ErrorCode::gguf_tensor_overlap, "offset", high.offset_at,
                fmt::format("its data begins at byte {} of the file, inside tensor {}, which ends at {}",
                            high.info.offset, in_quotes(cursor_.text(low.name)), low_end));
  }
  return {};
}

Header HeaderParser::finish() {
  Header header;
  header.version = version_;
  header.alignment = alignment_;
  header.bytes = cursor_.finish();
  const std::span<const std::byte> all = *header.bytes;
  const auto bytes = [&](Extent extent) { return all.subspan(extent.offset, extent.n_bytes); };

  std::vector<Metadata::Entry> entries;
  entries.reserve(keys_.size());
  for (const ParsedKey& entry : keys_) {
    entries.push_back(
        {as_text(bytes(entry.name)), Value(entry.type, entry.element_type, entry.n_elements, bytes(entry.value))});
  }
  header.metadata = Metadata(header.bytes, std::move(entries));

  header.tensors.reserve(tensors_.size());
  for (ParsedTensor& tensor : tensors_) {
    tensor.info.name = as_text(bytes(tensor.name));
    header.tensors.push_back(tensor.info);
  }
  return header;
}

}  // namespace

HeaderSource memory_source(std::span<const std::byte> bytes, uint64_t n_bytes, std::string name) {
  const auto read = [bytes](std::span<std::byte> to, uint64_t offset) {
    const auto from = bytes.subspan(std::min<uint64_t>(offset, bytes.size()));
    const size_t n = std::min(from.size(), to.size());
    std::copy_n(from.begin(), n, to.begin());
    std::fill(to.begin() + static_cast<ptrdiff_t>(n), to.end(), std::byte{0});
    return Result<void>();
  };
  return {std::move(name), n_bytes, read};
}

Result<Header> parse_header(const HeaderSource& source, const Limits& limits) {
  return HeaderParser(source, limits).parse();
}

}  // namespace rocmforge::gguf
