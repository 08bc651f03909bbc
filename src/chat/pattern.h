#pragma once
// A marker of a tool format, matched at the beginning of a text that may still grow.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/units.h"

namespace rocmforge::chat {

enum class Match : uint8_t { no, maybe, yes };  // maybe: depends on the text to come

struct Captures {
  std::string name = {}, id = {}, key = {}, type = {};
};

class Pattern {
 public:
  static constexpr size_t kMaxName = 256, kMaxSpace = 256;

  // `marker` is in the language of tool_format.h. Parts that spell one of `control` match that control token only.
  Pattern(std::string_view marker, std::span<const std::string> control);

  // `is_end`: the text will not grow. On Match::yes, `length` is the length of the match.
  Match match(UnitView text, bool is_end, size_t& length, Captures* captures = nullptr) const;

  // The first unit of every match; 0: any unit.
  Unit first() const;
  bool empty() const { return elements_.empty(); }

 private:
  struct Element {
    char kind;  // N, I, K, T; ~; = for text
    Units text;
  };

  Match match_capture(size_t index, UnitView text, bool is_end, size_t& length, std::string& out) const;

  std::vector<Element> elements_;
};

// The longest of `control` that `text` begins with; empty if there is none.
std::string_view control_at(std::string_view text, std::span<const std::string> control);

// The text with its control tokens between kControlBegin and kControlEnd.
std::string mark_controls(std::string_view text, std::span<const std::string> control);

}  // namespace rocmforge::chat
