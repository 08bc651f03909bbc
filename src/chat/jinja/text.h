#pragma once
// Text as Python's str sees it: UTF-8 underneath, code points on top. Everything here takes time linear in its input.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge::jinja {

// Character classes of Python's str.isspace, str.isalpha and so on.
bool is_space(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit_like(char32_t c);  // isdigit: decimals and superscripts
bool is_numeric(char32_t c);
bool is_lower(char32_t c);
bool is_upper(char32_t c);
bool is_title(char32_t c);
bool is_printable(char32_t c);
bool is_word_character(char32_t c);  // \w of a regular expression

size_t count_characters(std::string_view text);
// The byte where character `index` starts; text.size() when there are fewer.
size_t byte_of_character(std::string_view text, size_t index);

enum class Side { left, right, both };
// Removes white space, or the characters in `set`, at the given ends.
std::string_view strip(std::string_view text, Side side);
std::string_view strip(std::string_view text, Side side, std::string_view set);

// Case by the simple mappings of Unicode and the common mappings to several letters (U+00DF to "SS").
std::string to_lower(std::string_view text);
std::string to_upper(std::string_view text);
std::string to_capitalized(std::string_view text);
std::string to_title(std::string_view text);
std::string to_swapped_case(std::string_view text);
std::string to_folded(std::string_view text);

// The first and the last position of `what`; npos if absent. Linear time, also for repetitive text.
size_t find_text(std::string_view text, std::string_view what, size_t from = 0);
size_t rfind_text(std::string_view text, std::string_view what);
// At most `max` non-overlapping positions of `what`, found from the left (or right), ascending. REQUIRES: !what.empty()
std::vector<size_t> find_all(std::string_view text, std::string_view what, size_t max, bool from_right = false);
size_t count_text(std::string_view text, std::string_view what);

// The lines, as by str.splitlines.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends = false);

// & < > " ' as HTML entities.
std::string escape_html(std::string_view text);

// int(text, base) and float(text) of Python; nothing when the text is not such a number or does not fit.
std::optional<int64_t> parse_integer(std::string_view text, int base);
std::optional<double> parse_real(std::string_view text);

// repr of a float: the shortest digits that read back.
std::string real_to_text(double value);

}  // namespace rocmforge::jinja
