#include "line_editor.h"

#include <histedit.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <string_view>

#include "base/utf8.h"

namespace rocmforge::apps {
namespace {

constexpr int kRemembered = 1000;  // lines of history

// The symbol for a newline: how a pasted one is shown while the line is edited.
constexpr wchar_t kPastedNewline = 0x2424;
constexpr std::string_view kPastedNewlineText = "\u2424";

// A signal handler can reach nothing but globals. The event ends a wait, on whichever thread the signal was taken.
volatile std::sig_atomic_t g_is_interrupted = 0;
volatile int g_event = -1;
volatile std::sig_atomic_t g_second_leaves = 0;

void say_heard() {  // from a signal handler too
  constexpr char kHeard[] = "\n(stopping; ctrl-C again leaves)\n";
  if (::write(STDERR_FILENO, kHeard, sizeof kHeard - 1) < 0) {
    // The terminal is gone.
  }
}

extern "C" void note_interrupt(int) {
  const int saved = errno;
  if (g_second_leaves != 0) {
    if (g_is_interrupted != 0) {
      std::signal(SIGINT, SIG_DFL);
      std::raise(SIGINT);  // taken when this handler returns
    } else {
      say_heard();
    }
  }
  g_is_interrupted = 1;
  const uint64_t one = 1;
  if (::write(g_event, &one, sizeof one) < 0) {
    // It is set already.
  }
  errno = saved;
}

const char* environment_or(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

// Waits until there is something to read; false when there is an interrupt instead.
bool wait_for_input() {
  while (g_is_interrupted == 0) {
    pollfd waiting[2] = {{STDIN_FILENO, POLLIN, 0}, {g_event, POLLIN, 0}};
    if (::poll(waiting, 2, -1) > 0 && waiting[0].revents != 0 && g_is_interrupted == 0) return true;
  }
  return false;
}

}  // namespace

InterruptFlag::InterruptFlag() {
  g_event = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  struct sigaction action{};
  action.sa_handler = note_interrupt;
  action.sa_flags = SA_RESTART;
  clear();
  ::sigaction(SIGINT, &action, nullptr);
}

InterruptFlag::~InterruptFlag() {
  std::signal(SIGINT, SIG_DFL);
  ::close(g_event);
}

SecondInterruptLeaves::SecondInterruptLeaves() {
  if (InterruptFlag::is_set()) say_heard();  // it came after the line was read
  g_second_leaves = 1;
}

SecondInterruptLeaves::~SecondInterruptLeaves() {
  g_second_leaves = 0;
}

bool InterruptFlag::is_set() {
  return g_is_interrupted != 0;
}

void InterruptFlag::clear() {
  uint64_t n = 0;
  if (::read(g_event, &n, sizeof n) < 0) {
    // It was not set.
  }
  g_is_interrupted = 0;
}

struct LineEditor::State {
  EditLine* editor = nullptr;
  History* history = nullptr;
  HistEvent event{};
  std::string history_file;
  std::string prompt;
  bool was_empty = false;  // the line, when it was interrupted
  bool marks_pastes = false;

  static State& of(EditLine* editor) {
    State* state = nullptr;
    el_get(editor, EL_CLIENTDATA, &state);
    return *state;
  }
  static char* show_prompt(EditLine* editor) { return of(editor).prompt.data(); }
  static int read_character(EditLine* editor, wchar_t* to);
  int next_byte(unsigned char& to);
  bool take(std::string_view sequence);
  bool is_pasting = false;  // between the marks that a terminal puts around what is pasted
  std::deque<unsigned char> read_ahead;

  // Another program that reads the file sees all of it or what it was before.
  void save() {
    if (history_file.empty()) return;
    const std::string temporary = history_file + "." + std::to_string(::getpid());
    std::error_code error;
    if (::history(history, &event, H_SAVE, temporary.c_str()) >= 0) {
      std::filesystem::rename(temporary, history_file, error);
    }
    if (error) std::filesystem::remove(temporary, error);
  }
};

// 1, 0 at the end, -1 when interrupted.
int LineEditor::State::next_byte(unsigned char& to) {
  if (!read_ahead.empty()) {
    to = read_ahead.front();
    read_ahead.pop_front();
    return 1;
  }
  return wait_for_input() ? static_cast<int>(::read(STDIN_FILENO, &to, 1)) : -1;
}

// Takes the rest of an escape sequence if it comes next, as it does in one piece; other bytes are kept for later.
bool LineEditor::State::take(std::string_view sequence) {
  for (size_t i = 0; i < sequence.size(); i++) {
    if (i == read_ahead.size()) {
      pollfd waiting{STDIN_FILENO, POLLIN, 0};
      unsigned char byte = 0;
      if (::poll(&waiting, 1, 50) <= 0 || ::read(STDIN_FILENO, &byte, 1) != 1) return false;
      read_ahead.push_back(byte);
    }
    if (read_ahead[i] != static_cast<unsigned char>(sequence[i])) return false;
  }
  read_ahead.erase(read_ahead.begin(), read_ahead.begin() + static_cast<ptrdiff_t>(sequence.size()));
  return true;
}

// One character for libedit: 1, 0 at the end, -1 when interrupted. Its own reader would take the first ctrl-C for an
// accident and go on.
int LineEditor::State::read_character(EditLine* editor, wchar_t* to) {
  char bytes[4];
  for (size_t n = 0; n < sizeof bytes;) {
    State& state = of(editor);
    unsigned char byte = 0;
    const int got = state.next_byte(byte);
    bytes[n] = static_cast<char>(byte);
    if (got > 0 && n == 0 && byte == '\x1b' && state.take(state.is_pasting ? "[201~" : "[200~")) {
      state.is_pasting = !state.is_pasting;
      continue;
    }
    if (got > 0 && state.is_pasting && (byte == '\r' || byte == '\n')) {
      *to = kPastedNewline;
      return 1;
    }
    if (got <= 0) {
      const LineInfoW* typed = el_wline(editor);
      of(editor).was_empty = typed->lastchar == typed->buffer;
      return got;
    }
    n++;
    const Utf8Step step = decode_utf8(std::string_view(bytes, n), 0);
    if (step.valid) {
      *to = static_cast<wchar_t>(step.code_point);
      return 1;
    }
    // The beginning of a longer character: its first byte says how long.
    const auto first = static_cast<unsigned char>(bytes[0]);
    const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
    if (n >= length) break;
  }
  *to = 0xFFFD;
  return 1;
}

LineEditor::LineEditor(const std::string& history_file) : state_(std::make_unique<State>()) {
  // libedit thinks in wide characters and asks the locale what they are.
  if (!std::setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
  State& s = *state_;
  s.history_file = history_file;
  s.editor = el_init("rocmforge", stdin, stderr, stderr);
  s.history = history_init();
  if (!s.editor || !s.history) return;
  ::history(s.history, &s.event, H_SETSIZE, kRemembered);
  ::history(s.history, &s.event, H_SETUNIQUE, 1);
  if (!history_file.empty()) {
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(history_file).parent_path(), error);
    ::history(s.history, &s.event, H_LOAD, history_file.c_str());
  }
  el_set(s.editor, EL_CLIENTDATA, &s);
  el_set(s.editor, EL_PROMPT, State::show_prompt);
  el_set(s.editor, EL_EDITOR, "emacs");
  el_set(s.editor, EL_HIST, ::history, s.history);
  el_set(s.editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  el_set(s.editor, EL_BIND, "\033[1~", "ed-move-to-beg", nullptr);
  el_set(s.editor, EL_BIND, "\033[4~", "ed-move-to-end", nullptr);
  el_set(s.editor, EL_BIND, "\033[3~", "ed-delete-next-char", nullptr);
  el_set(s.editor, EL_GETCFN, State::read_character);
  el_source(s.editor, nullptr);  // the user's ~/.editrc
  s.marks_pastes = std::string_view(environment_or("TERM", "dumb")) != "dumb";
  if (s.marks_pastes) std::fputs("\x1b[?2004h", stderr);
}

LineEditor::~LineEditor() {
  if (state_->marks_pastes) std::fputs("\x1b[?2004l", stderr);
  if (state_->editor) el_end(state_->editor);
  if (state_->history) history_end(state_->history);
}

LineEditor::Input LineEditor::read(const std::string& prompt) {
  State& s = *state_;
  if (!s.editor || !s.history) return {Event::end};
  s.prompt = prompt;
  InterruptFlag::clear();
  // Before the prompt shows, so that no key meant for us is taken by the terminal.
  el_set(s.editor, EL_PREP_TERM, 1);
  el_resize(s.editor);
  int n = 0;
  const char* line = el_gets(s.editor, &n);
  if (!line || n <= 0) {
    if (!InterruptFlag::is_set()) return {Event::end};
    el_reset(s.editor);
    std::fputs("^C\n", stderr);
    return {.event = Event::interrupted, .was_empty = s.was_empty};
  }
  std::string text(line, static_cast<size_t>(n));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  for (size_t at = 0; (at = text.find(kPastedNewlineText, at)) != std::string::npos; at++) {
    text.replace(at, kPastedNewlineText.size(), "\n");
  }
  while (text.ends_with('\n')) text.pop_back();
  if (!text.empty()) {
    ::history(s.history, &s.event, H_ENTER, text.c_str());
    s.save();
  }
  return {Event::line, text};
}

}  // namespace rocmforge::apps
