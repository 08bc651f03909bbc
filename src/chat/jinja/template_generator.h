#pragma once
// For tests: random templates and contexts over the whole supported language. Most are well typed, some are wrong on
// purpose, none prints a value that Python prints with its address.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"

namespace rocmforge::jinja {

class TemplateGenerator {
 public:
  explicit TemplateGenerator(uint64_t seed) : rng_(seed) {}

  JsonValue make_context();
  std::string make_template();

 private:
  enum class Type { number, text, boolean, list, dict, any };

  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(rng_); }
  bool chance(unsigned percent) { return below(100) < percent; }
  template <class T>
  const T& pick(const std::vector<T>& choices) {
    return choices[below(choices.size())];
  }
  std::string pick(std::initializer_list<const char*> choices) { return *(choices.begin() + below(choices.size())); }

  // Context
  std::string random_text();
  JsonValue random_scalar();
  JsonValue random_value(int depth);
  JsonValue random_user();

  // Statements
  std::string statements(int depth);
  std::string statement(int depth);
  std::string data();
  std::string tag(const std::string& inside);
  std::string print(const std::string& inside);
  std::string for_statement(int depth);
  std::string macro_statement(int depth);
  std::string namespace_statement(int depth);
  std::string loop_mention();

  // Expressions, in parentheses where the operator needs them or sometimes not
  std::string expression(Type type, int depth);
  std::string leaf(Type type);
  std::string number(int depth);
  std::string text(int depth);
  std::string boolean(int depth);
  std::string list(int depth);
  std::string dict(int depth);
  std::string number_literal();
  std::string text_literal();
  std::string slice();
  std::string format_call(int depth);
  std::string percent_format(int depth);

  std::mt19937_64 rng_;
  std::vector<std::string> numbers_, texts_, lists_;  // variables in scope, by what they hold
  size_t n_names_ = 0;
  int loop_depth_ = 0;
  bool may_break_ = false;
};

}  // namespace rocmforge::jinja
