#include "server/http/response.h"

#include <fmt/core.h>

#include <ctime>

namespace rocmforge::server {
namespace {

bool has_option(std::string_view list, std::string_view option) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    std::string_view item = list.substr(0, comma);
    while (!item.empty() && (item.front() == ' ' || item.front() == '\t')) item.remove_prefix(1);
    while (!item.empty() && (item.back() == ' ' || item.back() == '\t')) item.remove_suffix(1);
    const bool same = item.size() == option.size() && std::equal(item.begin(), item.end(), option.begin(),
                                                                 [](char a, char b) { return (a | 0x20) == b; });
    if (same) return true;
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return false;
}

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[40];
  const size_t n = std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return {text, n};
}

}  // namespace

std::string_view status_text(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

std::string response_head(const ResponseHead& head, const Framing& framing) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\n", head.status, status_text(head.status), http_date());
  const bool has_body = head.status != 204 && head.status != 304;
  if (has_body) out += fmt::format("Content-Type: {}\r\nX-Content-Type-Options: nosniff\r\n", head.content_type);
  for (const Header& header : head.headers) out += fmt::format("{}: {}\r\n", header.name, header.value);
  if (framing.chunked) out += "Transfer-Encoding: chunked\r\n";
  if (has_body && framing.body_bytes) out += fmt::format("Content-Length: {}\r\n", *framing.body_bytes);
  if (framing.close) out += "Connection: close\r\n";
  return out + "\r\n";
}

void append_chunk(std::string& out, std::string_view bytes) {
  if (bytes.empty()) return;
  out += fmt::format("{:x}\r\n", bytes.size());
  out += bytes;
  out += "\r\n";
}

bool wants_to_stay(const Request& request) {
  if (request.is_http_1_0) return false;
  const std::string* connection = request.header("connection");
  return !connection || !has_option(*connection, "close");
}

}  // namespace rocmforge::server
