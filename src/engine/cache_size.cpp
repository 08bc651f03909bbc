#include "engine/cache_size.h"

#include <algorithm>

#include "kv/page.h"

namespace rocmforge {
namespace {

// Between two states: at most so many pages, however large a state is, so that an edited prompt is not computed again
// from its start.
constexpr uint64_t kMaxSpacing = 64;

// States that a sequence alone finds worth keeping, whatever its pages take: the ends of some prompts and answers.
constexpr uint64_t kLeastKept = 6;

uint64_t less(uint64_t from, uint64_t n) {
  return from - std::min(from, n);
}

// Window pages that are kept for later prompts take at most so much of what the other pages take: little for a sequence
// alone, whose own pages stay where it ends.
constexpr uint64_t kAloneShare = 20, kShare = 4;

// Window pages of running sequences take at most half of the memory, unless it is one sequence.
void add_windows(SchedulerOptions& options, const CacheUnits& units, uint64_t bytes, uint64_t most_pages) {
  const uint64_t n_rows = options.max_step_tokens, page_bytes = units.window_page_bytes;
  const auto needed = [&](uint64_t n) { return window_pages_for(units.window, n, n_rows); };
  uint64_t n_running = options.max_running;
  while (n_running > 1 && needed(n_running) * page_bytes > bytes / 2) n_running--;
  const uint64_t n_least = needed(n_running);
  // Without them every sequence keeps all of its pages.
  if (n_least >= most_pages) return;
  const uint64_t others = most_pages * (units.page_bytes - page_bytes) / (n_running == 1 ? kAloneShare : kShare);
  // Given pages come first.
  const uint64_t of_pages = options.n_pages * (units.page_bytes - page_bytes);
  const uint64_t allowed = options.n_pages != 0 ? less(bytes, of_pages) : bytes / 2;
  const uint64_t n_left = less(allowed, n_least * page_bytes) / page_bytes;
  const uint64_t n_kept = std::min({others / page_bytes, 2 * (n_least - needed(0)), n_left, most_pages - n_least});
  options.window = units.window;
  options.n_window_pages = static_cast<uint32_t>(n_least + n_kept);
}

}  // namespace

CacheUnits CacheUnits::of(const ExecutionPlan& plan, KvType kv_type) {
  CacheUnits units;
  const auto bill = [&](uint32_t n_pages, uint32_t n_states, uint32_t n_window_pages) {
    return plan.memory_bill(plan.pass_memory(1, 1, n_pages, kv_type, n_states, n_window_pages));
  };
  units.page_bytes = bill(1, 0, 0).kv_bytes;
  if (plan.has_states()) units.state_bytes = bill(0, 1, 0).state_bytes;
  units.window = plan.window();
  // A difference of many pages, since backends round their sum up.
  constexpr uint32_t kMany = 64;
  if (units.window != 0) units.window_page_bytes = bill(1, 0, kMany).window_bytes / kMany;
  return units;
}

uint32_t CacheUnits::state_spacing() const {
  if (page_bytes == 0) return kMaxSpacing;
  return static_cast<uint32_t>(std::clamp<uint64_t>((state_bytes + page_bytes - 1) / page_bytes, 1, kMaxSpacing));
}

void divide_cache(SchedulerOptions& options, const CacheUnits& units, uint64_t bytes, uint32_t percent) {
  const uint64_t n_longest = pages_for_tokens(options.n_context), n_running = options.max_running;
  const uint64_t most_pages = options.n_pages != 0 ? options.n_pages : n_running * n_longest;
  if (units.window_page_bytes > 0) add_windows(options, units, bytes, most_pages);
  const uint64_t in_windows = options.n_window_pages > 0 ? units.window_page_bytes : 0;
  const uint64_t page_bytes = std::max<uint64_t>(less(units.page_bytes, in_windows), 1);
  bytes = less(bytes, options.n_window_pages * in_windows);
  if (units.state_bytes > 0) {
    options.state_spacing = units.state_spacing();
    // Given pages come first, else those of one sequence; of the rest at least half is for pages.
    const uint64_t n_first = options.n_pages != 0 ? options.n_pages : n_longest;
    const uint64_t rest = less(bytes, n_first * page_bytes);
    const uint64_t for_states = options.n_pages != 0 ? rest : std::min(rest, bytes / 100 * percent / 2);
    const uint64_t n_at_work =
        std::clamp<uint64_t>(for_states / units.state_bytes, ExecutionPlan::kStatesAlone, 2 * n_running);
    const uint64_t n_left = less(for_states, n_at_work * units.state_bytes) / units.state_bytes;
    const uint64_t of_pages = std::min(most_pages * page_bytes, bytes) / 4 / units.state_bytes;
    const uint64_t n_useful = std::max(most_pages / options.state_spacing + 2 * n_running, kLeastKept);
    const uint64_t n_kept = std::min({std::max(of_pages, kLeastKept), n_left, n_useful});
    options.n_states = static_cast<uint32_t>(n_at_work + n_kept);
    bytes = less(bytes, options.n_states * units.state_bytes);
  }
  if (options.n_pages != 0) return;
  const uint64_t n_left = bytes / page_bytes;
  const uint64_t n_allowed = bytes / 100 * percent / page_bytes;
  options.n_pages = static_cast<uint32_t>(std::min(most_pages, std::max(n_allowed, std::min(n_left, n_longest))));
}

}  // namespace rocmforge
