#pragma once
// The chat template of a model for a server, where most requests need none: one that cannot be used says so when it is.

#include "base/load_control.h"
#include "base/result.h"
#include "gguf/reader.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

// `tokenizer` must outlive what is returned. Errors: cancelled, when `control` says so.
Result<tokenizer::ChatTemplate> usable_template(const gguf::Metadata& metadata, const tokenizer::Tokenizer& tokenizer,
                                                const LoadControl& control = {});

}  // namespace rocmforge
