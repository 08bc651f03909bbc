#pragma once
// The variable `loop`: the state of a loop. Looking ahead (loop.last, loop.nextitem) takes the next item early, as in
// Jinja: the loop's condition is then evaluated early too.

#include <optional>
#include <string_view>

#include "base/result.h"
#include "chat/jinja/objects.h"

namespace rocmforge::jinja {

// Moves to the next item; nullopt at the end of the loop.
Result<std::optional<Value>> advance(LoopObject& loop);

Result<std::optional<Value>> loop_property(LoopObject& loop, std::string_view name);

}  // namespace rocmforge::jinja
