#pragma once
// Makes text of files, models and clients safe for a terminal or a log: control characters are shown as escapes, not
// sent. Escape sequences can rewrite the screen, change the window's title, and in many terminals write the clipboard.
//
// Shown are C0 (ESC among them), DEL, C1, the controls that reorder text (U+202A to U+202E, U+2066 to U+2069), line and
// paragraph separators, and bytes that are not UTF-8: \n, \t, \x1b, \u{202e}.

#include <string>
#include <string_view>

namespace rocmforge {

// One line: newlines and tabs are shown as well. At most max_columns characters, then an ellipsis.
std::string printable(std::string_view text, size_t max_columns = std::string_view::npos);

// A text that arrives in pieces, which may end inside a character. Newlines and tabs pass.
class PrintableStream {
 public:
  std::string push(std::string_view piece);
  std::string finish();  // the replacement for an incomplete last character

 private:
  std::string held_;
};

}  // namespace rocmforge
