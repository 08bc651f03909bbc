#pragma once
// Finds the tool format of a model: its own chat template renders two calls, and the format whose parser recovers
// them exactly is chosen.

#include <chrono>
#include <functional>
#include <string_view>

#include "base/load_control.h"
#include "base/result.h"
#include "chat/chat_template.h"
#include "chat/tool_format.h"

namespace rocmforge::chat {

enum class FoundBy : uint8_t {
  option,       // named by a flag
  probe,        // the parser recovers the calls that the template writes
  markers,      // the template spells its markers, or the vocabulary has them
  instruction,  // the template has no tools: the system message tells the model how to call them
};

struct FormatChoice {
  const ToolFormat* format = nullptr;
  FoundBy found_by = FoundBy::instruction;
};

std::string_view name_of(FoundBy found_by);

// Time limit on the probe. Beyond it the format is chosen as if the template had rendered no calls.
inline constexpr std::chrono::seconds kMaxProbeTime{2};

// `contains(text)`: whether the vocabulary has a token with this text. Errors: cancelled (by `control`).
Result<FormatChoice> find_format(const ChatTemplate& chat_template,
                                 const std::function<bool(std::string_view)>& contains,
                                 const LoadControl& control = {});

}  // namespace rocmforge::chat
