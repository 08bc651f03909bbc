#pragma once
// A marker of a tool format, matched at the beginning of a text of which more may come.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/units.h"

namespace rocmforge::chat {

enum class Match : uint8_t { no, maybe, yes };  // maybe: what comes next decides

struct Captures {
  std::string name = {}, id = {}, key = {}, type = {};
};

class Pattern {
 public:
  static constexpr size_t kMaxName = 256, kMaxSpace = 256;

  // In the language of tool_format.h. What spells one of `control` in it is matched as a control token alone.
  Pattern(std::string_view marker, std::span<const std::string> control);

  // `is_end`: no more will come. On yes, `length` is how much of the text it takes.
  Match match(UnitView text, bool is_end, size_t& length, Captures* captures = nullptr) const;

  // The unit it begins with; 0: any.
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

// A control token of `control` that `text` begins with, the longest; empty: none.
std::string_view control_at(std::string_view text, std::span<const std::string> control);

// Text whose control tokens stand between kControlBegin and kControlEnd.
std::string mark_controls(std::string_view text, std::span<const std::string> control);

}  // namespace rocmforge::chat
