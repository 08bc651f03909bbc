#pragma once
// Tests on the magnitude of a decimal number ("123", "0.50"), digit by digit. They are leaves of regular expressions
// (RegexPool::number): written as plain expressions, bounds would be large and divisors huge.
//
// The text is assumed to be digits, optionally followed by a point and digits.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace rocmforge::grammar {

enum class NumberRelation : uint8_t { less, less_or_equal, greater, greater_or_equal, multiple };

struct NumberTest {
  NumberRelation relation = NumberRelation::less;
  std::string whole, fraction;  // the bound's digits, without leading zeros (except "0") and without trailing zeros
  uint64_t divisor = 0;         // for `multiple`: the number times 10^scale is a multiple of this
  uint32_t scale = 0;
  friend bool operator==(const NumberTest&, const NumberTest&) = default;
};

// The state after some digits.
struct NumberState {
  uint32_t n_digits = 0;  // of the part before the point, or of the part after it
  bool in_fraction = false;
  int8_t order = 0;  // the comparison of the digits so far with the bound's first digits
  uint64_t remainder = 0;
  friend auto operator<=>(const NumberState&, const NumberState&) = default;
};

// The next state; nullopt if no continuation meets the test.
std::optional<NumberState> next_state(const NumberTest& test, const NumberState& state, uint8_t byte);
// Whether the number may end here.
bool is_met(const NumberTest& test, const NumberState& state);

}  // namespace rocmforge::grammar
