#pragma once
// Members of a request that are not read: those that would change the answer are refused by name, the others are named
// in a header of the answer, so that a client learns of a misspelled one. The tables are in request_fields.cpp.

#include <string>
#include <vector>

#include "server/api/fields.h"

namespace rocmforge::server {

enum class FieldFamily : uint8_t { chat, completions, generate, embeddings, text };

// Refuses in `fields` what other servers know and this one does not do (code unsupported_feature), unless its value
// asks for nothing.
void refuse_unsupported(Fields& fields, FieldFamily family);

// For the header X-Rocmforge-Ignored: the members that nobody has read and that are not known to be harmless, at most
// kMaxIgnoredNames of them, each cut to kMaxIgnoredNameBytes. Call it when everything has been read.
inline constexpr size_t kMaxIgnoredNames = 16, kMaxIgnoredNameBytes = 48;
// `more`: what was read and is not done.
std::string ignored_names(const Fields& fields, const std::vector<std::string>& more = {});

}  // namespace rocmforge::server
