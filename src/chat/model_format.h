#pragma once
// The tool format of one model: what its template and its vocabulary say.

#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "chat/format_probe.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge::chat {

// The tokens of the vocabulary that are markers of the format, or pieces of them: control and user-defined ones,
// ascending.
std::vector<TokenId> marker_tokens(const ToolFormat& format, const tokenizer::Tokenizer& tokenizer);

struct ModelFormat {
  const ToolFormat* format = nullptr;
  FoundBy found_by = FoundBy::instruction;
  bool is_told = true;  // the template knows no tools: the model is told of them, and of hermes, in its system message
  std::shared_ptr<const std::vector<TokenId>> markers;
  std::vector<std::string> control;  // their texts
};

// `name`: this format, whatever the model says; it has to exist.
ModelFormat find_model_format(const tokenizer::ChatTemplate& chat_template, const tokenizer::Tokenizer& tokenizer,
                              const std::string& name = {});

}  // namespace rocmforge::chat
