#pragma once
// Tells a model's thinking from its answer: text that begins with <think> is reasoning until </think>.
// What comes out does not depend on where the pieces are cut: what may still be a tag is held back.

#include <string>
#include <string_view>

namespace rocmforge::server {

class ReasoningSplitter {
 public:
  struct Output {
    std::string reasoning, content;
  };

  // `has_begun`: the prompt itself ends with <think>.
  explicit ReasoningSplitter(bool has_begun = false) : state_(has_begun ? State::thinking : State::start) {}

  Output push(std::string_view text);
  Output finish();  // what was held back

  bool is_thinking() const { return state_ == State::thinking; }

 private:
  enum class State { start, thinking, after, answer };  // after: white space behind </think> is dropped

  State state_;
  std::string held_;
};

// Whether a prompt leaves the model in the middle of its thinking.
bool ends_thinking(std::string_view prompt);

}  // namespace rocmforge::server
