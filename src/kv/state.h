#pragma once
// Slots for the states of recurrent layers, as ids. A slot holds all recurrent layers' states of one sequence after one
// position; its bytes belong to the backend.
//
// A run of a batch reads the slot `state_before` and leaves its last state in `state_after` (plan/batch.h). A slot that
// somebody else holds is never written, so that a checkpoint changes hands without a copy.

#include <cstdint>

#include "base/ids.h"
#include "kv/id_pool.h"

namespace rocmforge {

using StateId = Id<struct StateIdTag>;

// Equal slots with reference counts; nothing here throws after the constructor.
using StatePool = IdPool<StateId>;

}  // namespace rocmforge
