#pragma once
// Values that stand in for those of a file's metadata, or beside them.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/metadata.h"

namespace rocmforge::gguf {

struct Override {
  std::string key;  // one that begins with '.' gets the model's architecture in front
  ValueType type = ValueType::string;
  std::string bytes;  // as stored in a file
};

// KEY=TYPE:VALUE, as llama.cpp has it: TYPE is int, float, bool or str. invalid_argument: another form, or a value that
// is not of its type.
Result<Override> parse_override(std::string_view text);

// The metadata with these values; of several for one key the last counts.
// gguf_key_missing: a key begins with '.', and the file names no architecture.
Result<Metadata> with_overrides(const Metadata& metadata, std::span<const Override> overrides);

}  // namespace rocmforge::gguf
