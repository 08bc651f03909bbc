#pragma once
// Why a request ended.

#include <cstdint>
#include <string_view>

#include "base/check.h"

namespace rocmforge {

enum class FinishReason : uint8_t {
  stop,       // an end-of-text token or a stop string; for embeddings: done
  length,     // max_tokens, or the context is full
  cancelled,  // nobody wanted more
  error,      // FinishEvent::error says which
};

inline std::string_view finish_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::error:
      return "error";
  }
  RF_UNREACHABLE("a FinishReason outside its enum");
}

}  // namespace rocmforge
