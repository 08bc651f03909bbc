#pragma once
// Which tool format a model uses: two calls are rendered by its own chat template, and the format whose parser finds
// them again, exactly, is the one.

#include <functional>
#include <string_view>

#include "chat/tool_format.h"
#include "tokenizer/chat_template.h"

namespace rocmforge::chat {

enum class FoundBy : uint8_t {
  option,       // somebody said so
  probe,        // the parser recovers what the template writes
  markers,      // the template spells its markers, or the vocabulary has them
  instruction,  // the template knows no tools: the model is told how to call them
};

struct FormatChoice {
  const ToolFormat* format = nullptr;
  FoundBy found_by = FoundBy::instruction;
};

std::string_view name_of(FoundBy found_by);

// `contains`: whether the vocabulary has such a token.
FormatChoice find_format(const tokenizer::ChatTemplate& chat_template,
                         const std::function<bool(std::string_view)>& contains);

}  // namespace rocmforge::chat
