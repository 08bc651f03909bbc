#include "base/units.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>

namespace rocmforge {
namespace {

std::string scaled(double value, double step, const char* const* units, size_t n_units, const char* space) {
  size_t unit = 0;
  while (unit + 1 < n_units && value >= step * (1 - 0.0005)) {
    value /= step;
    unit++;
  }
  const int n_decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}{}", value, n_decimals, units[unit][0] ? space : "", units[unit]);
}

}  // namespace

std::string format_bytes(uint64_t n_bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  return scaled(static_cast<double>(n_bytes), 1024, kUnits, std::size(kUnits), " ");
}

std::string format_count(uint64_t n) {
  static constexpr const char* kUnits[] = {"", "K", "M", "B", "T"};
  return scaled(static_cast<double>(n), 1000, kUnits, std::size(kUnits), " ");
}

Result<uint64_t> parse_size(std::string_view text) {
  const auto bad = [&] {
    return Error{ErrorCode::invalid_argument, fmt::format("size '{}': expected a number with an optional unit, "
                                                          "such as 512M or 1.5G",
                                                          text)};
  };
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (failure != std::errc() || !(value >= 0)) return bad();
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (!unit.empty()) {
    const size_t power = std::string_view("kmgtKMGT").find(unit[0]);
    if (power != std::string_view::npos) {
      value *= std::pow(1024.0, static_cast<double>(power % 4 + 1));
      unit.remove_prefix(1);
      if (!unit.empty() && unit[0] == 'i') unit.remove_prefix(1);
    }
    if (!unit.empty() && (unit[0] == 'b' || unit[0] == 'B')) unit.remove_prefix(1);
    if (!unit.empty()) return bad();
  }
  if (value >= 0x1p63) return bad();
  return static_cast<uint64_t>(value);
}

}  // namespace rocmforge
