#pragma once
// Facts about a model from its file's header.

#include <cstdint>
#include <string>

#include "gguf/reader.h"

namespace rocmforge {

struct ModelFacts {
  std::string architecture;
  std::string name;  // general.name; may be empty
  uint32_t n_context_train = 0;
  uint64_t n_parameters = 0;
  uint32_t n_vocab = 0;
  uint32_t width = 0;     // of an embedding
  std::string file_type;  // "Q4_K_M"; the type of most of the weights where the file names none
  // "roles": the file's chat template says who speaks; "joined": it only joins the messages, so the model continues
  // them; "none": the file has no template.
  std::string chat_template;
  // The model's format of tool calls, and how it was found (chat/format_probe.h). Empty until the model was loaded.
  std::string tool_format = {}, tool_format_by = {};
  friend bool operator==(const ModelFacts&, const ModelFacts&) = default;
};

// A fact that the file does not hold stays empty.
ModelFacts read_model_facts(const gguf::GgufFile& file);

}  // namespace rocmforge
