#pragma once
// How the values of a schema are written: as JSON, or in another notation for the same values.

#include <array>
#include <functional>
#include <string>
#include <string_view>

#include "grammar/spelling.h"

namespace rocmforge::grammar {

enum class JsonType : uint8_t { null, boolean, number, string, array, object };
inline constexpr size_t kJsonTypes = 6;

struct ValueSyntax {
  Spelling::Form chars = Spelling::Form::json;  // of strings and keys
  std::string quote = "\"";                     // before and after them
  bool has_bare_keys = false;                   // keys that are words stand without quotes
  bool has_python_words = false;                // None, True and False as well as null, true and false
  std::string excluded = {};                    // a text that no string may contain
};

// How a reader takes a value between tags for a string.
enum class StringReading : uint8_t {
  always,       // every text is the string itself
  unlike_json,  // a text that is no JSON value is the string itself
  or_quoted,    // the same, and a quoted string is what it quotes
};

// How the members of the outermost object are written, where not as an object of the values' syntax.
struct MemberSyntax {
  Regex close = kEmptyText, separator = kEmptyText;
  Regex key_open = kEmptyText, key = kNothing;   // `key`: what a key may be
  std::array<Regex, kJsonTypes> key_close = {};  // by the type of the value
  Regex value_close = kEmptyText;
  // Strings stand without quotes, as texts of `raw_text` where a reader takes every text for a string, and else of
  // `other_raw_text`. Absent: strings are written as elsewhere.
  std::function<StringReading(std::string_view key)> reading = {};
  Regex raw_text = kNothing, other_raw_text = kNothing;
};

// The texts that are not read as JSON, whichever type is expected.
Regex texts_unlike_json(RegexPool& pool);
// The texts that do not contain one of `excluded`.
Regex texts_without(RegexPool& pool, Regex excluded);

}  // namespace rocmforge::grammar
