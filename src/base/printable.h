#pragma once
// Text of files, models and clients, made fit for a terminal or a log: a control character is shown, not sent. Escape
// sequences can rewrite the screen, name the window, and in many terminals write the clipboard.
//
// Shown are C0 (ESC among them), DEL, C1, the controls that reorder text (U+202A to U+202E, U+2066 to U+2069), line and
// paragraph separators, and bytes that are not UTF-8: \n, \t, \x1b, \u{202e}.

#include <string>
#include <string_view>

namespace rocmforge {

// One line: newlines and tabs are shown as well. At most max_columns characters, then an ellipsis.
std::string printable(std::string_view text, size_t max_columns = std::string_view::npos);

// A text that comes in pieces, which may end within a character. Newlines and tabs pass.
class PrintableStream {
 public:
  std::string push(std::string_view piece);
  std::string finish();  // what an incomplete character leaves

 private:
  std::string held_;
};

}  // namespace rocmforge
