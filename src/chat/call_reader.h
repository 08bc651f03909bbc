#pragma once
// Reads one tool call after its opening marker, and writes its arguments as JSON while they arrive.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "chat/literal.h"
#include "chat/pattern.h"
#include "chat/tool_format.h"
#include "chat/tool_set.h"

namespace rocmforge::chat {

// A format's markers as patterns for one vocabulary.
struct FormatPatterns {
  struct Opening {
    Pattern pattern;
    bool has_section, in_array, needs_known_name;
  };
  using Patterns = std::vector<Pattern>;

  FormatPatterns(const ToolFormat& format, std::span<const std::string> control);

  std::vector<Opening> openings;  // openings of a call that follows text
  std::vector<Opening> starts;    // of a call that begins where the prompt ends
  std::vector<Opening> next;      // of a call that follows another call
  Patterns call_close, section_close, reasoning_open, reasoning_close, dropped, dropped_at_start;
  std::optional<Pattern> parameter_open, parameter_close;
  Units quote;
  Pattern fence;
  Units harmony_start, harmony_channel, harmony_message;
};

class CallReader {
 public:
  static constexpr size_t kMaxHeld = 1u << 20;  // bytes of a value that cannot be written before it is complete

  enum class Step : uint8_t { more, done, failed };

  // The arguments must outlive the reader. `needs_known_name`: a call of an unknown tool fails.
  CallReader(const ToolFormat& format, const FormatPatterns& patterns, const ToolSet& tools, Captures header,
             bool needs_known_name);

  // Consumes the first n_taken units of `text`. `is_end`: the input ends here. `more` with n_taken 0: needs more input.
  Step step(UnitView text, bool is_end, size_t& n_taken);

  // Whether the name is known and the arguments have begun. From here on the text is certainly a call.
  bool is_ready() const { return is_ready_; }
  const std::string& name() const { return name_; }
  const std::string& id() const { return id_; }
  std::string take_arguments() { return std::exchange(arguments_, {}); }

 private:
  enum class Place : uint8_t { start, key, key_text, colon, value_start, value, after };
  enum class Role : uint8_t { none, name, id, arguments, nested };

  Step step_object(Unit unit, bool& taken);
  Step step_object_value(Unit unit, bool& taken);
  Step end_object_value();
  Step end_object();
  Step step_json(UnitView text, bool is_end, size_t& n_taken);
  Step step_python(Unit unit, bool& taken);
  Step step_tagged(UnitView text, bool is_end, size_t& n_taken);
  Step begin_parameter(const Captures& captures);
  Step step_value(UnitView text, bool is_end, size_t& n_taken);
  Match match_value_end(UnitView text, bool is_end, size_t& length) const;
  Match match_follower(UnitView text, bool is_end) const;
  void end_value();
  Role role_of(const std::string& key) const;
  bool set_name(std::string name);
  bool set_arguments_from(const std::string& json);
  Step done();

  const ToolFormat* format_;
  const FormatPatterns* patterns_;
  const ToolSet* tools_;
  std::string name_, id_, arguments_;
  bool needs_known_name_;
  bool is_ready_ = false, has_arguments_ = false;

  Place place_ = Place::start;
  Role role_ = Role::none;
  bool is_nested_ = false;  // inside "function": {
  bool is_text_ = false;    // the arguments are JSON inside a string
  LiteralScanner scanner_;
  std::string scratch_;  // a key, a name, or a held value
  bool in_value_ = false, is_string_ = false, began_on_line_ = false, is_value_empty_ = true;
  uint8_t types_ = kUnknown;
  size_t n_parameters_ = 0;
};

}  // namespace rocmforge::chat
