#pragma once
// The tool format of one model, from its chat template and its vocabulary.

#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "chat/chat_template.h"
#include "chat/format_probe.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge::chat {

// The control and user-defined tokens of the vocabulary that are markers of the format, or parts of markers; ascending.
std::vector<TokenId> marker_tokens(const ToolFormat& format, const tokenizer::Tokenizer& tokenizer);

struct ModelFormat {
  const ToolFormat* format = nullptr;
  FoundBy found_by = FoundBy::instruction;
  bool is_told = true;  // the template has no tools: the system message describes them and the format hermes
  std::shared_ptr<const std::vector<TokenId>> markers;
  std::vector<std::string> control;  // their texts
};

// `name`, if not empty, is the format to use instead of the probe's. Errors: cancelled (by `control`).
// REQUIRES: `name` is empty or find_tool_format() has it
Result<ModelFormat> find_model_format(const ChatTemplate& chat_template, const tokenizer::Tokenizer& tokenizer,
                                      const std::string& name = {}, const LoadControl& control = {});

}  // namespace rocmforge::chat
