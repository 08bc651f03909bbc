#pragma once
// A request as received, parsed and checked; its target and headers are not interpreted yet.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge::server {

struct Header {
  std::string name;  // lower case
  std::string value;
};

struct Request {
  std::string method;
  std::string target;  // the path and the query
  bool is_http_1_0 = false;
  std::vector<Header> headers;
  std::string body;

  // The first header of that (lower-case) name, or null.
  const std::string* header(std::string_view name) const {
    const auto at = std::ranges::find(headers, name, &Header::name);
    return at == headers.end() ? nullptr : &at->value;
  }
  size_t count(std::string_view name) const {
    return static_cast<size_t>(std::ranges::count(headers, name, &Header::name));
  }
};

}  // namespace rocmforge::server
