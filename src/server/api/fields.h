#pragma once
// Reads the members of a request's JSON object by name, type and range.
//
// Null counts as absent. A member of the wrong type or outside its range is an error that names the member. After the
// first error every member reads as absent, so that a caller checks error() once, at the end. NaN is outside all
// ranges.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/api/api_error.h"

namespace rocmforge::server {

class Fields {
 public:
  // `prefix` is put before names in errors: "stream_options.".
  explicit Fields(const JsonValue& object, std::string prefix = {});

  const std::optional<ApiError>& error() const { return error_; }
  void refuse(std::string_view name, std::string message, std::string code = {});
  void refuse(ApiError error);

  // The member, unless it is absent or null.
  const JsonValue* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // The members that were not read so far, in order; at most `kMaxUnread`.
  static constexpr size_t kMaxUnread = 256;
  std::vector<std::string_view> unread() const;

  std::optional<int64_t> integer(std::string_view name, int64_t least, int64_t most);
  std::optional<double> number(std::string_view name, double least, double most);
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::string> text(std::string_view name, size_t max_bytes = SIZE_MAX);
  const JsonArray* array(std::string_view name, size_t max_size);
  const JsonObject* object(std::string_view name, size_t max_size);

 private:
  const JsonValue& object_;
  std::string prefix_;
  std::optional<ApiError> error_;
  mutable std::vector<std::string> asked_;  // names of members read
};

// The integer that a number is, if it is one: 3 and 3.0, not 3.5.
std::optional<int64_t> as_integer(const JsonValue& value);
// Any number as a double.
std::optional<double> as_number(const JsonValue& value);

}  // namespace rocmforge::server
