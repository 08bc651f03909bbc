#pragma once
// The variable `loop`: where a loop stands. Looking ahead (loop.last, loop.nextitem) takes the next item early, as in
// Jinja: a loop's condition is then evaluated early too.

#include <optional>
#include <string_view>

#include "base/result.h"
#include "tokenizer/jinja/objects.h"

namespace rocmforge::jinja {

// Moves to the next item; nothing when the loop is over.
Result<std::optional<Value>> advance(LoopObject& loop);

Result<std::optional<Value>> loop_property(LoopObject& loop, std::string_view name);

}  // namespace rocmforge::jinja
