#pragma once
// The formats in which models write tool calls, one table row per format. The row drives both the parser of messages
// (message_parser.h) and the grammar that calls are held to (call_syntax.h).
//
// Language of markers: %N is a tool's name, %I a call's id, %K a parameter's name, %T a word for its type, ~ any white
// space; everything else is literal.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge::chat {

// The form of call ids that a template requires.
enum class IdForm : uint8_t {
  any,
  nine,            // nine letters and digits
  name_and_index,  // functions.N:INDEX, counted through the conversation
};

// What a parameter's tag says of its value.
enum class TypeWord : uint8_t {
  none,
  is_string,  // "true" or "false"
  type_name,
};

// How a call's arguments are written.
enum class Body : uint8_t {
  call_object,  // the whole call is a JSON object: name, arguments and id in any order
  json,         // a JSON object after the name
  tagged,       // one pair of tags per parameter
  python,       // k=v, ... ) after N(
  literal,      // an object in the format's own spelling of keys and strings
};

struct ToolFormat {
  using Markers = std::vector<std::string_view>;

  std::string_view name;
  Body body = Body::call_object;
  // Around all calls. Each is a list of alternatives; templates write the first.
  Markers section_open = {}, section_close = {};
  bool needs_section = false;  // no call without it
  bool is_array = false;       // calls stand in brackets, with commas between
  // Around one call; the body follows the opening marker.
  Markers call_open = {}, call_close = {};
  std::string_view separator = {};  // between calls
  // What a model has to write at the end of a call or section, by alternative of its opening marker; empty: the first
  // closing marker.
  Markers written_close = {}, written_section_close = {};
  // call_object: the keys that templates write; `id_key` may be empty
  std::string_view name_key = "name", arguments_key = "arguments", id_key = {};
  // tagged
  std::string_view parameter_open = {}, parameter_close = {};
  bool has_value_lines = false;  // a line break before and after each value
  TypeWord type_word = TypeWord::none;
  // literal
  std::string_view quote = {};
  bool name_is_key = false;  // call_object: {"N": A}
  bool id_follows = false;   // call_object: the id comes last, so a call is reported when it is complete
  bool is_bare = false;      // only a known name distinguishes a call from text
  bool is_harmony = false;   // messages with headers instead of markers
  IdForm id_form = IdForm::any;
  std::string_view start_prefix = {};  // the part of the first marker that the prompt may end with
  Markers reasoning_open = {"<think>"}, reasoning_close = {"</think>"};
  Markers dropped = {};             // markers around the answer, removed from it
  std::string_view signature = {};  // must appear in a rendered template: distinguishes formats that parse alike
};

// All formats, by name.
std::span<const ToolFormat> tool_formats();
// Null if there is none of that name.
const ToolFormat* find_tool_format(std::string_view name);

// The literal parts of a format's markers, which may be control tokens.
std::vector<std::string> markers_of(const ToolFormat& format);

}  // namespace rocmforge::chat
