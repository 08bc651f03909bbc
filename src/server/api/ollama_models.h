#pragma once
// Models by Ollama's names: with a tag behind a colon, or without.

#include <string>
#include <string_view>

#include "server/api/call.h"

namespace rocmforge::server {

// "story" is listed as "story:latest"; a name with a tag stays.
std::string tagged_name(const std::string& name);
// Replaces a body's `model` (or `name`, as older clients have it) by the name of the model that is meant.
void use_listed_name(const Call& call, JsonValue& body);

}  // namespace rocmforge::server
