#pragma once
// The tools of a request, as needed to read calls: their names, and the types of their parameters.

#include <map>
#include <string>
#include <string_view>

#include "base/json.h"

namespace rocmforge::chat {

// A set of the types of JSON Schema; 0: unknown.
enum ValueTypes : uint8_t {
  kUnknown = 0,
  kString = 1,
  kNumber = 2,  // includes integers
  kBoolean = 4,
  kNull = 8,
  kArray = 16,
  kObject = 32,
};

class ToolSet {
 public:
  ToolSet() = default;
  // Tools in OpenAI's form; tools without a name are left out.
  explicit ToolSet(const JsonArray& tools);

  bool empty() const { return tools_.empty(); }
  bool contains(std::string_view name) const { return tools_.contains(name); }
  uint8_t types(std::string_view tool, std::string_view parameter) const;

 private:
  std::map<std::string, std::map<std::string, uint8_t, std::less<>>, std::less<>> tools_;
};

// The JSON of a parameter's value between tags: a string is quoted, values of other types are parsed.
std::string tagged_json(std::string_view text, uint8_t types);

}  // namespace rocmforge::chat
