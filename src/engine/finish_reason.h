#pragma once
// Why a request ended.

#include <cstdint>

namespace rocmforge {

enum class FinishReason : uint8_t {
  stop,       // an end-of-text token or a stop string; for embeddings: done
  length,     // max_tokens, or the context is full
  cancelled,  // nobody wanted more
  error,      // FinishEvent::error says which
};

}  // namespace rocmforge
