#pragma once
// Tests of the magnitude of a decimal number, digit by digit: "123", "0.50". They become leaves of regular expressions
// (RegexPool::number), where sums of such languages would be large or, of divisors, huge.
//
// The text is assumed to be a number's: digits, and perhaps a point with digits behind it.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace rocmforge::grammar {

enum class NumberRelation : uint8_t { less, less_or_equal, greater, greater_or_equal, multiple };

struct NumberTest {
  NumberRelation relation = NumberRelation::less;
  std::string whole, fraction;  // the bound's digits: no zeros in front but "0" itself, none behind
  uint64_t divisor = 0;         // of `multiple`: the number times 10^scale is a multiple of it
  uint32_t scale = 0;
  friend bool operator==(const NumberTest&, const NumberTest&) = default;
};

// What of a number has been read.
struct NumberState {
  uint32_t n_digits = 0;  // of the part before the point, or behind it
  bool in_fraction = false;
  int8_t order = 0;  // the digits so far beside the bound's first ones
  uint64_t remainder = 0;
  friend auto operator<=>(const NumberState&, const NumberState&) = default;
};

// Nothing: no number that goes on so meets the test.
std::optional<NumberState> next_state(const NumberTest& test, const NumberState& state, uint8_t byte);
// Whether the number may end here.
bool is_met(const NumberTest& test, const NumberState& state);

}  // namespace rocmforge::grammar
