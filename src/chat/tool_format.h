#pragma once
// How models write tool calls: one row per format. The row is all there is of a format: the parser reads by it.
//
// Markers are spelled in a small language: %N stands for a tool's name, %I for a call's id, %K for a parameter's name,
// %T for a word that says its type, ~ for any white space, everything else for itself.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge::chat {

// What a template asks of the ids of calls.
enum class IdForm : uint8_t {
  any,
  nine,            // nine letters and digits
  name_and_index,  // functions.N:INDEX, counted through the conversation
};

// How a call's arguments are written.
enum class Body : uint8_t {
  call_object,  // the whole call is a JSON object: name, arguments and id in any order
  json,         // a JSON object behind the name
  tagged,       // one pair of tags per parameter
  python,       // k=v, ... ) behind N(
  literal,      // an object with keys and strings of the format's own
};

struct ToolFormat {
  using Markers = std::vector<std::string_view>;

  std::string_view name;
  Body body = Body::call_object;
  // Around all calls. Alternatives; what stands first is what templates write.
  Markers section_open = {}, section_close = {};
  bool needs_section = false;  // no call without it
  bool is_array = false;       // calls stand in brackets, with commas between
  // Around one call; behind the opening marker comes the body.
  Markers call_open = {}, call_close = {};
  std::string_view separator = {};  // between calls
  // tagged
  std::string_view parameter_open = {}, parameter_close = {};
  bool has_value_lines = false;  // a line break stands on each side of a value
  // literal
  std::string_view quote = {};
  bool name_is_key = false;  // call_object: {"N": A}
  bool id_follows = false;   // call_object: the id comes last, so that a call is told when it is complete
  bool is_bare = false;      // nothing but a known name tells a call from text
  bool is_harmony = false;   // messages with headers instead of markers
  IdForm id_form = IdForm::any;
  std::string_view start_prefix = {};  // what the prompt may end with, of the first call's or text's marker
  Markers reasoning_open = {"<think>"}, reasoning_close = {"</think>"};
  Markers dropped = {};             // markers around the answer, no part of it
  std::string_view signature = {};  // must be in what a template writes: tells formats apart that read alike
};

// All formats, by name.
std::span<const ToolFormat> tool_formats();
// Null: there is none of that name.
const ToolFormat* find_tool_format(std::string_view name);

// Every marker of a format, in pieces without placeholders: what of it may be control tokens.
std::vector<std::string> markers_of(const ToolFormat& format);

}  // namespace rocmforge::chat
