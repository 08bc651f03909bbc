#include "base/printable.h"

#include <gtest/gtest.h>

#include "base/log.h"

namespace rocmforge {
namespace {

TEST(Printable, ShowsControlCharacters) {
  EXPECT_EQ(printable("plain text, é世😀"), "plain text, é世😀");
  EXPECT_EQ(printable("\x1b]0;ha\x07"), R"(\x1b]0;ha\x07)");
  EXPECT_EQ(printable("a\nb\tc\rd\x7f"), R"(a\nb\tc\x0dd\x7f)");
  EXPECT_EQ(printable(std::string_view("\0", 1)), R"(\x00)");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            R"(\u{9b}31m)")
      << "CSI as one character";
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            R"(\x9b31m)")
      << "and as one byte";
  EXPECT_EQ(printable("\u202etxt.exe"), R"(\u{202e}txt.exe)");
  EXPECT_EQ(printable("abcdef", 3), "abc…");
  EXPECT_EQ(printable("abc", 3), "abc");
}

TEST(Printable, EveryCutOfAStreamShowsTheSame) {
  const std::string text = "é\x1b[31m\n\tfin 世\u202e\xc2\x9b\xff";
  const std::string expected = "é\\x1b[31m\n\tfin 世\\u{202e}\\u{9b}\\xff";
  for (size_t cut = 0; cut <= text.size(); cut++) {
    PrintableStream stream;
    std::string out = stream.push(std::string_view(text).substr(0, cut));
    out += stream.push(std::string_view(text).substr(cut));
    out += stream.finish();
    EXPECT_EQ(out, expected) << cut;
  }
  PrintableStream stream;
  EXPECT_EQ(stream.push("a\xe4\xb8"), "a");
  EXPECT_EQ(stream.finish(), R"(\xe4\xb8)");
}

// A file's architecture, '\x1b]0;PWNED', set the reader's window title.
TEST(Log, MessagesShowControlCharacters) {
  std::string seen;
  {
    const LogCapture capture([&](LogLevel, std::string_view text) { seen = text; });
    log(LogLevel::warn, "key '{}'", "\x1b]52;c;eA==\x07");
  }
  EXPECT_EQ(seen, R"(key '\x1b]52;c;eA==\x07')");
}

}  // namespace
}  // namespace rocmforge
