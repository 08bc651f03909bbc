#pragma once
// The bytes of a response.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/exchange.h"

namespace rocmforge::server {

struct Framing {
  std::optional<size_t> body_bytes = {};  // none: a stream
  bool chunked = false;
  bool close = false;  // the connection ends with this answer
};

// Status line and headers, with the empty line.
std::string response_head(const ResponseHead& head, const Framing& framing);

// Appends a chunk. No bytes append nothing, since an empty chunk would end the body.
void append_chunk(std::string& out, std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// Whether the connection is kept for another request.
bool wants_to_stay(const Request& request);

std::string_view status_text(int status);

}  // namespace rocmforge::server
