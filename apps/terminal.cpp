#include "terminal.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace rocmforge::apps {
namespace {

// Characters, not bytes: good enough for names and numbers.
size_t width(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

// There is nobody left to tell when this fails.
void print_error(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace

void prepare_standard_streams() {
  std::signal(SIGPIPE, SIG_IGN);
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // Opened the wrong way round on purpose: using it fails as the closed descriptor would have.
    const int filler = ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (filler != fd) std::exit(1);
  }
}

Result<void> print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EPIPE) return Error{ErrorCode::cancelled, "standard output: the reader is gone"};
      return Error{ErrorCode::file_write, fmt::format("standard output: {}", std::strerror(errno))};
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

AnswerOutput::AnswerOutput() : is_terminal_(::isatty(STDOUT_FILENO) == 1) {}

Result<void> AnswerOutput::print(std::string_view piece) {
  return apps::print(is_terminal_ ? stream_.push(piece) : std::string(piece));
}

Result<void> AnswerOutput::finish() {
  return apps::print(stream_.finish());
}

Result<void> BufferedOutput::print_rest() {
  TRY(print(text));
  text.clear();
  return {};
}

Result<std::string> read_standard_input(size_t max_bytes) {
  std::string out;
  char piece[65536];
  while (true) {
    const ssize_t n = ::read(STDIN_FILENO, piece, sizeof piece);
    if (n == 0) return out;
    if (n < 0) {
      if (errno == EINTR) continue;
      return Error{ErrorCode::file_read, fmt::format("standard input: {}", std::strerror(errno))};
    }
    out.append(piece, static_cast<size_t>(n));
    if (out.size() > max_bytes) {
      return Error{ErrorCode::limit_exceeded,
                   fmt::format("standard input: more than the limit of {} bytes", max_bytes)};
    }
  }
}

void say(std::string_view text) {
  print_error(fmt::format("rocmforge: {}\n", printable(text)));
}

ProgressLine::ProgressLine() : is_terminal_(::isatty(STDERR_FILENO) == 1) {
  const char* term = std::getenv("TERM");  // a dumb terminal cannot rewrite a line
  if (term && std::string_view(term) == "dumb") is_terminal_ = false;
}

void ProgressLine::clear() {
  if (std::exchange(shown_, false)) print_error("\r\x1b[K");
}

void ProgressLine::update(const std::function<std::string()>& text) {
  if (!is_terminal_) return;
  const TimePoint now = system_clock()();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  shown_ = true;
  // A line that wraps cannot be taken back.
  struct winsize size{};
  const bool is_known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  print_error("\r\x1b[K" + printable(text(), is_known ? size.ws_col - 2u : 78u));
}

std::string Table::text(std::string_view indent) const {
  std::vector<size_t> widths(columns_.size());
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); c++) widths[c] = std::max(widths[c], width(row[c]));
  }
  std::string out;
  for (const auto& row : rows_) {
    out += indent;
    std::string line;
    for (size_t c = 0; c < row.size(); c++) {
      const std::string padding(widths[c] - width(row[c]), ' ');
      if (c > 0) line += "  ";
      line += columns_[c] == Align::right ? padding + row[c] : row[c] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace rocmforge::apps
