#pragma once
// The web page, built into the program. Every asset is served as it lies here, without an API key: the page asks for
// it. Invariant: all files the page loads are in page_assets(); it needs nothing from outside.

#include <span>
#include <string_view>

namespace rocmforge::server {

struct PageAsset {
  std::string_view path;          // of the URL: "/" is the page itself, "/page/app.js" a part of it
  std::string_view content_type;  // with its charset
  std::string_view bytes;
  std::string_view etag;  // quoted, as If-None-Match gives it back; changes with the bytes
};

// Sorted by path.
std::span<const PageAsset> page_assets();

// Content-Security-Policy of every asset. Model output is hostile: no inline code or style, no foreign origin, no
// frame.
inline constexpr std::string_view kPageSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace rocmforge::server
