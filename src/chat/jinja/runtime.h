#pragma once
// The state that all operations of a rendering use: the budget, and the arguments of a call.
//
// Costs: one step per statement, operation and call, per four operands, per value built and per comparison; one per 256
// bytes of text and per 16 references copied. So the step limit bounds both time and memory.

#include <fmt/core.h>

#include <array>
#include <ctime>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "chat/jinja/objects.h"
#include "chat/jinja/template.h"
#include "chat/jinja/value.h"

namespace rocmforge::jinja {

// Values nested deeper than this are neither printed nor compared.
inline constexpr size_t kMaxValueDepth = 128;

template <class... T>
Error fault(fmt::format_string<T...> format, T&&... args) {
  return Error{ErrorCode::template_runtime, fmt::format(format, std::forward<T>(args)...)};
}
// The error for the use of an undefined value.
inline Error undefined_fault(const Value& value) {
  return fault("{}", undefined_message(value));
}

inline Error value_too_deep() {
  return Error{ErrorCode::template_limit, fmt::format("values nested deeper than {}", kMaxValueDepth)};
}

class Runtime {
 public:
  explicit Runtime(const RenderOptions& options);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const RenderOptions& options() const { return options_; }
  const Limits& limits() const { return options_.limits; }

  Result<void> charge(uint64_t steps) {
    n_steps_ += steps;
    if (__builtin_expect(n_steps_ < next_check_, 1)) return {};
    return check();
  }
  Result<void> charge_text(size_t n_bytes) { return charge(n_bytes / 256); }
  Result<void> charge_copies(size_t n_values) { return charge(n_values / 16); }

  // Fails if a text of that size exceeds the limit.
  Result<void> check_text(size_t n_bytes) const;

  // A new namespace. All namespaces are emptied when the rendering ends, which breaks reference cycles.
  Value make_namespace(Dict dict);

 private:
  Result<void> check();

  const RenderOptions& options_;
  TimePoint deadline_;
  uint64_t n_steps_ = 0;
  uint64_t next_check_ = 0;
  std::vector<Value> namespaces_;
};

// Builds a text within the output limit, and charges the budget.
class Builder {
 public:
  explicit Builder(Runtime& rt) : rt_(rt) {}
  Result<void> add(std::string_view text) {
    TRY(rt_.check_text(out_.size() + text.size()));
    TRY(rt_.charge_text(text.size()));
    out_ += text;
    return {};
  }
  Result<void> repeat(std::string_view text, uint64_t n);
  Runtime& runtime() { return rt_; }
  size_t size() const { return out_.size(); }
  std::string take() { return std::move(out_); }

 private:
  Runtime& rt_;
  std::string out_;
};

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// The arguments in the order of `parameters`; null for one that was not given. The first `n_required` are required, the
// first `n_unnamed` can only be given by position.
Result<void> bind_args(const Value** out, const Args& args, std::string_view function,
                       const std::string_view* parameters, size_t n, size_t n_required, size_t n_unnamed);
template <size_t N>
Result<std::array<const Value*, N>> bind(const Args& args, std::string_view function,
                                         const std::array<std::string_view, N>& parameters, size_t n_required = 0,
                                         size_t n_unnamed = 0) {
  std::array<const Value*, N> out{};
  TRY(bind_args(out.data(), args, function, parameters.data(), N, n_required, n_unnamed));
  return out;
}
Result<void> expect_no_args(const Args& args, std::string_view function);

// An argument as an integer, or as a string; an error if it is neither.
Result<int64_t> to_index(const Value& value);
Result<std::string_view> to_text_argument(const Value& value, std::string_view function);

}  // namespace rocmforge::jinja
