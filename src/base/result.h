#pragma once
// Result<T>: a T or an Error. [[nodiscard]]: an error cannot be dropped by accident.
//
//   Result<Header> read_header(File& file);
//   Header h = TRY(read_header(file));      // returns the error to our own caller
//
// The compiler, not an exception, carries the error: library code throws nothing on bad input.

#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/error.h"

namespace rocmforge {

template <class T>
class [[nodiscard]] Result {
  static_assert(!std::is_reference_v<T> && !std::is_same_v<std::remove_cv_t<T>, Error>);

 public:
  using value_type = T;

  // Anything a T can be made from converts, so `return pointer;` works for Result<unique_ptr<Base>>.
  template <class U = T>
    requires(std::is_constructible_v<T, U &&> && !std::is_same_v<std::remove_cvref_t<U>, Result> &&
             !std::is_same_v<std::remove_cvref_t<U>, Error>)
  Result(U&& value) : state_(std::in_place_index<0>, std::forward<U>(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok()
  T& value() & { return CHECK(ok()), *std::get_if<0>(&state_); }
  const T& value() const& { return CHECK(ok()), *std::get_if<0>(&state_); }
  T&& value() && { return CHECK(ok()), std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !ok()
  Error& error() & { return CHECK(!ok()), *std::get_if<1>(&state_); }
  const Error& error() const& { return CHECK(!ok()), *std::get_if<1>(&state_); }
  Error&& error() && { return CHECK(!ok()), std::move(*std::get_if<1>(&state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }

  void value() const { CHECK(ok()); }
  Error& error() & { return CHECK(!ok()), *error_; }
  const Error& error() const& { return CHECK(!ok()), *error_; }
  Error&& error() && { return CHECK(!ok()), std::move(*error_); }

 private:
  std::optional<Error> error_;
};

}  // namespace rocmforge

// The value of a Result, or return its error from the enclosing function. Each use names its variable afresh, so that
// one TRY may stand inside another.
#define TRY(expression) RF_TRY_COUNTED(__COUNTER__, expression)
#define RF_TRY_COUNTED(counter, expression) RF_TRY_NAMED(counter, expression)
#define RF_TRY_NAMED(counter, expression)                                \
  __extension__({                                                        \
    auto&& rf_result_##counter = (expression);                           \
    if (__builtin_expect(!rf_result_##counter.ok(), 0)) {                \
      return ::rocmforge::Error(std::move(rf_result_##counter).error()); \
    }                                                                    \
    std::move(rf_result_##counter).value();                              \
  })
