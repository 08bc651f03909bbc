#include "server/api/reasoning.h"

#include <algorithm>
#include <utility>

namespace rocmforge::server {
namespace {

constexpr std::string_view kOpen = "<think>", kClose = "</think>", kSpace = " \t\r\n";

// The length of the longest end of `text` that is a proper beginning of `tag`.
size_t n_held(std::string_view text, std::string_view tag) {
  for (size_t n = std::min(text.size(), tag.size() - 1); n > 0; n--) {
    if (text.ends_with(tag.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace

ReasoningSplitter::Output ReasoningSplitter::push(std::string_view text) {
  Output out;
  held_ += text;
  if (state_ == State::start) {
    const size_t first = held_.find_first_not_of(kSpace);
    if (first == std::string::npos) return out;
    const std::string_view visible = std::string_view(held_).substr(first);
    if (visible.size() < kOpen.size() && kOpen.starts_with(visible)) return out;
    state_ = visible.starts_with(kOpen) ? State::thinking : State::answer;
    if (state_ == State::thinking) held_.erase(0, first + kOpen.size());
  }
  if (state_ == State::thinking) {
    const size_t end = held_.find(kClose);
    const size_t n = end == std::string::npos ? held_.size() - n_held(held_, kClose) : end;
    out.reasoning = held_.substr(0, n);
    held_.erase(0, end == std::string::npos ? n : end + kClose.size());
    if (end == std::string::npos) return out;
    state_ = State::after;
  }
  if (state_ == State::after) {
    held_.erase(0, std::min(held_.find_first_not_of(kSpace), held_.size()));
    if (held_.empty()) return out;
    state_ = State::answer;
  }
  out.content = std::exchange(held_, {});
  return out;
}

ReasoningSplitter::Output ReasoningSplitter::finish() {
  Output out;
  (state_ == State::thinking ? out.reasoning : out.content) = std::exchange(held_, {});
  return out;
}

bool ends_thinking(std::string_view prompt) {
  const size_t last = prompt.find_last_not_of(kSpace);
  return last != std::string_view::npos && prompt.substr(0, last + 1).ends_with(kOpen);
}

}  // namespace rocmforge::server
