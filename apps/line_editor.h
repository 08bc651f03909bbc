#pragma once
// Lines from a person at a terminal: editing, history (kept in a file), ctrl-C and ctrl-D. The prompt and what is typed
// are shown on stderr. libedit is used in line_editor.cpp alone.
//
// Threads: one.

#include <memory>
#include <string>

namespace rocmforge::apps {

class LineEditor {
 public:
  // An empty history file: lines are remembered until the end only.
  explicit LineEditor(const std::string& history_file);
  ~LineEditor();

  enum class Event {
    line,
    interrupted,  // ctrl-C; what was typed is dropped
    end,          // ctrl-D, or the terminal is gone
  };
  struct Input {
    Event event = Event::end;
    std::string text = {};   // without the end of the line; what was pasted may hold several lines
    bool was_empty = false;  // when interrupted: nothing had been typed
  };
  // REQUIRES: an InterruptFlag lives
  Input read(const std::string& prompt);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// While it lives ctrl-C sets a flag instead of ending the program.
class InterruptFlag {
 public:
  InterruptFlag();
  ~InterruptFlag();
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;

  static bool is_set();
  static void clear();
};

// While it lives, during an answer: the first ctrl-C says at once that it was heard, a second one ends the program.
class SecondInterruptLeaves {
 public:
  SecondInterruptLeaves();
  ~SecondInterruptLeaves();
  SecondInterruptLeaves(const SecondInterruptLeaves&) = delete;
  SecondInterruptLeaves& operator=(const SecondInterruptLeaves&) = delete;
};

}  // namespace rocmforge::apps
