#pragma once
// Converts one value written by a model to JSON, byte by byte.
//
// JSON is copied unchanged: spelling of numbers, order of keys, white space. Also accepted: single quotes, raw line
// breaks in strings, Python's words and tuples, keys without quotes, a trailing comma, and strings between a marker of
// the format (Gemma).
//
// Memory: a byte per level of nesting, at most kMaxDepth; at most kMaxWord bytes of a number or word are held back.

#include <string>
#include <string_view>
#include <vector>

#include "chat/units.h"

namespace rocmforge::chat {

class LiteralScanner {
 public:
  static constexpr size_t kMaxDepth = 60, kMaxWord = 512;

  enum class Step : uint8_t {
    more,    // consumed
    done,    // consumed, and the value is complete
    before,  // not consumed: the value was complete before this unit
    failed,
  };

  // `quote` must outlive the scanner; empty: the format has none.
  explicit LiteralScanner(UnitView quote = {}) : quote_(quote) {}

  Step push(Unit unit, std::string& out);
  // Ends the input. Returns whether the value is complete.
  bool finish(std::string& out);

 private:
  enum class State : uint8_t { value, key, bare_key, colon, after, string, escape, hex, raw, quote, word, done };

  Step begin_value(Unit unit, std::string& out);
  Step begin_string(char quote, std::string& out);
  Step push_key(Unit unit, std::string& out);
  Step push_after(Unit unit, std::string& out);
  Step push_string(Unit unit, std::string& out);
  Step push_escape(Unit unit, std::string& out);
  Step push_hex(Unit unit, std::string& out);
  Step push_raw(Unit unit, std::string& out);
  Step push_word(Unit unit, std::string& out);
  Step close(char bracket, std::string& out);
  Step end_value();
  Step end_string(std::string& out);
  bool write_word(std::string& out) const;
  void put(char byte, std::string& out) const;
  void flush(std::string& out);

  UnitView quote_;
  State state_ = State::value;
  bool may_close_ = false;  // a closing bracket is allowed in place of a value or key
  bool is_key_ = false;     // the string is a key
  char string_quote_ = '"';
  size_t n_matched_ = 0;  // of quote_
  size_t n_hex_ = 0;      // digits that an escape still needs
  std::vector<char> open_;
  std::string held_;  // a comma and what follows it; a word; an escape
};

// Converts a whole value to JSON. Returns false if the text is no value.
bool to_json(std::string_view text, std::string& out);

}  // namespace rocmforge::chat
