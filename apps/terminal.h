#pragma once
// What the command says: results to stdout, checked; the rest to stderr.

#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/printable.h"
#include "base/result.h"

namespace rocmforge::apps {

// Fills the standard descriptors that the caller left closed, so that no file we open can take their place, and makes a
// broken pipe an error value instead of a signal.
void prepare_standard_streams();

// Writes all of `text` to stdout. A reader that went away gives ErrorCode::cancelled, other failures file_write.
Result<void> print(std::string_view text);

// The answer of a model, as it comes: on a terminal control characters are shown, not sent; elsewhere the bytes pass.
class AnswerOutput {
 public:
  AnswerOutput();
  Result<void> print(std::string_view piece);
  Result<void> finish();

 private:
  const bool is_terminal_;
  PrintableStream stream_;
};

// Collects small results and prints them in large pieces.
struct BufferedOutput {
  std::string text;
  Result<void> print_if_large() { return text.size() < (1u << 20) ? Result<void>() : print_rest(); }
  Result<void> print_rest();
};

// All of stdin, at most max_bytes.
Result<std::string> read_standard_input(size_t max_bytes);

// One line to stderr: "rocmforge: text", as printable() shows it.
void say(std::string_view text);

// A line on stderr that is rewritten as work goes on, and nothing at all when stderr is no terminal.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Called as often as one likes; `text` is asked for, and shown, at most ten times a second.
  void update(const std::function<std::string()>& text);
  void clear();

 private:
  bool is_terminal_;
  bool shown_ = false;
  TimePoint next_{};
};

// Columns side by side: each as wide as its widest cell. Numbers are aligned to the right.
class Table {
 public:
  enum class Align { left, right };
  explicit Table(std::vector<Align> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text(std::string_view indent = "  ") const;

 private:
  std::vector<Align> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace rocmforge::apps
