#pragma once
// How the memory of a token loop is divided: pages for keys and values, slots for states of recurrent layers.
//
// Every running sequence takes up to two slots: it reads one and writes the other. Further slots, a quarter of the
// pages' memory, hold states that the prefix tree keeps; in that memory they save more computation than pages would.
//
// Windowed layers get pages of their own where sequences are longer than what their windows reach: for every running
// sequence what its window reaches, and some that the prefix tree keeps.

#include <cstdint>

#include "engine/scheduler.h"
#include "plan/execution_plan.h"

namespace rocmforge {

struct CacheUnits {
  uint64_t page_bytes = 0;         // 0: no layer keeps keys and values
  uint64_t state_bytes = 0;        // 0: no layer is recurrent
  uint64_t window_page_bytes = 0;  // of page_bytes: those of windowed layers
  uint32_t window = 0;             // the widest, in positions; 0: none

  static CacheUnits of(const ExecutionPlan& plan, KvType kv_type);
  // Number of pages between two kept states of a prompt: pages of as much memory as a state, within bounds.
  uint32_t state_spacing() const;
};

// Fills in `n_window_pages` and `window`, `n_states` and `state_spacing`, and `n_pages` if it is 0: pages for every
// running sequence at its longest, as far as `percent` of the memory holds them. If that is less than one sequence, up
// to all of the memory for one.
void divide_cache(SchedulerOptions& options, const CacheUnits& units, uint64_t bytes, uint32_t percent);

}  // namespace rocmforge
