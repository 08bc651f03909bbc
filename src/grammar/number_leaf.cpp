#include "grammar/number_leaf.h"

#include <algorithm>

namespace rocmforge::grammar {
namespace {

bool is_above(NumberRelation r) {
  return r == NumberRelation::greater || r == NumberRelation::greater_or_equal;
}
bool allows_equal(NumberRelation r) {
  return r == NumberRelation::less_or_equal || r == NumberRelation::greater_or_equal;
}

// The order of what was read beside the bound, should the number end here: -1, 0, 1.
int final_order(const NumberTest& test, const NumberState& s) {
  if (!s.in_fraction) {
    if (s.n_digits != test.whole.size()) return s.n_digits < test.whole.size() ? -1 : 1;
    if (s.order != 0) return s.order;
    return test.fraction.empty() ? 0 : -1;
  }
  if (s.order != 0) return s.order;
  return s.n_digits < test.fraction.size() ? -1 : 0;  // the bound's fraction ends with a digit that is not zero
}

bool holds(NumberRelation relation, int order) {
  if (order == 0) return allows_equal(relation);
  return (order > 0) == is_above(relation);
}

// Whether some number that begins so meets the test.
bool can_meet(const NumberTest& test, const NumberState& s) {
  if (holds(test.relation, final_order(test, s))) return true;
  if (!s.in_fraction) {
    if (is_above(test.relation)) return true;  // more digits
    // A longer number is larger; one of as many digits may still be below by its fraction only if it is below now.
    return false;
  }
  // A fraction that equals the bound so far grows with more digits, never shrinks.
  return is_above(test.relation) && s.order == 0;
}

uint64_t times_power(uint64_t value, uint32_t exponent, uint64_t modulus) {
  for (uint32_t i = 0; i < exponent; i++)
    value = static_cast<uint64_t>((static_cast<unsigned __int128>(value) * 10) % modulus);
  return value;
}

bool can_be_multiple(const NumberTest& test, const NumberState& s) {
  if (!s.in_fraction) return true;
  if (s.n_digits >= test.scale) return s.remainder == 0;
  const uint32_t n_left = test.scale - s.n_digits;
  const uint64_t shifted = times_power(s.remainder, n_left, test.divisor);
  const uint64_t missing = (test.divisor - shifted) % test.divisor;
  uint64_t reach = 1;
  for (uint32_t i = 0; i < n_left && reach <= missing; i++) reach *= 10;
  return missing < reach;
}

}  // namespace

std::optional<NumberState> next_state(const NumberTest& test, const NumberState& state, uint8_t byte) {
  NumberState s = state;
  const bool is_multiple = test.relation == NumberRelation::multiple;
  if (byte == '.') {
    if (s.in_fraction || s.n_digits == 0) return {};
    if (!is_multiple && s.n_digits != test.whole.size()) s.order = s.n_digits < test.whole.size() ? -1 : 1;
    s.in_fraction = true;
    s.n_digits = 0;
  } else if (byte >= '0' && byte <= '9') {
    const int digit = byte - '0';
    if (is_multiple) {
      if (!s.in_fraction || s.n_digits < test.scale) {
        s.remainder = static_cast<uint64_t>(
            (static_cast<unsigned __int128>(s.remainder) * 10 + static_cast<unsigned>(digit)) % test.divisor);
      } else if (digit != 0) {
        return {};
      }
      // Before the point only the remainder counts, behind it the place does as well.
      s.n_digits = s.in_fraction ? std::min(s.n_digits + 1, test.scale) : 1;
    } else {
      const std::string& bound = s.in_fraction ? test.fraction : test.whole;
      if (s.order == 0) {
        const int other = s.n_digits < bound.size() ? bound[s.n_digits] - '0' : 0;
        if (s.n_digits < bound.size() || s.in_fraction)
          s.order = static_cast<int8_t>((digit > other) - (digit < other));
      }
      // Beyond the bound's digits nothing changes any more.
      s.n_digits = std::min(s.n_digits + 1, static_cast<uint32_t>(bound.size()) + 1);
      if (!s.in_fraction && s.n_digits > bound.size()) s.order = 1;
    }
  } else {
    return {};
  }
  if (is_multiple ? !can_be_multiple(test, s) : !can_meet(test, s)) return {};
  // What was decided needs no more counting.
  if (!is_multiple && s.in_fraction && s.order != 0) s.n_digits = 1;
  return s;
}

bool is_met(const NumberTest& test, const NumberState& s) {
  if (!s.in_fraction && s.n_digits == 0) return false;
  if (test.relation != NumberRelation::multiple) return holds(test.relation, final_order(test, s));
  return times_power(s.remainder, test.scale - (s.in_fraction ? s.n_digits : 0), test.divisor) == 0;
}

}  // namespace rocmforge::grammar
