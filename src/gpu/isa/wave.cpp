#include "gpu/isa/wave.h"

#include <fmt/format.h>

namespace rocmforge::gpu::isa {

void Wave::fail(const Instruction& i, const std::string& why) {
  if (state == State::failed) return;
  state = State::failed;
  failure = fmt::format("{}: {} at {:x}: {}", kernel->name, why, i.address, i.text);
}

bool Wave::find_range(const Instruction& i, uint64_t address, uint32_t n_bytes, bool write) {
  const Range* found = memory->find(address, n_bytes, write);
  if (found != nullptr) return last_range = *found, true;
  fail(i, fmt::format("{} of {} bytes at {:x}, which is outside of memory", write ? "a write" : "a read", n_bytes,
                      address));
  return false;
}

void Wave::modify(const Operand& o, Lanes& room, uint32_t sign) {
  if (o.part != Part::dword) {
    const bool is_word = o.part >= Part::word0;
    const uint32_t shift = is_word ? 16 * (static_cast<uint32_t>(o.part) - static_cast<uint32_t>(Part::word0))
                                   : 8 * (static_cast<uint32_t>(o.part) - static_cast<uint32_t>(Part::byte0));
    for (uint32_t& x : room) {
      x >>= shift;
      if (is_word)
        x = o.sext ? static_cast<uint32_t>(static_cast<int16_t>(x)) : x & 0xFFFF;
      else
        x = o.sext ? static_cast<uint32_t>(static_cast<int8_t>(x)) : x & 0xFF;
    }
  }
  if (o.abs) {
    for (uint32_t& x : room) x &= ~sign;
  }
  if (o.neg) {
    for (uint32_t& x : room) x ^= sign;
  }
}

void Wave::ended(const Pending& p) {
  if (p.ends == Ends::load || !visibility.is_followed()) return;
  if (p.ends == Ends::write_back) return visibility.written_back();
  visibility.store_arrived(p.store);
  if (p.ends == Ends::atomic) visibility.atomic_ended();
}

void wait_for_memory(Wave& w, const Instruction& i) {
  if (const size_t n = w.pending[kLoads].size(); w.counts_traffic && n > static_cast<size_t>(i.waits[kLoads])) {
    w.traffic.load_waits++;
    w.traffic.loads_under_way += n;
  }
  for (uint32_t c = 0; c < kNumCounters; c++) {
    std::vector<Pending>& queue = w.pending[c];
    if (queue.size() <= static_cast<size_t>(i.waits[c])) continue;
    bool is_ordered = true;
    for (const Pending& p : queue) is_ordered &= p.is_ordered;
    // What ends in any order is known to have ended only when all has.
    if (i.waits[c] != 0 && !is_ordered) continue;
    const auto end = queue.end() - i.waits[c];
    for (auto p = queue.begin(); p != end; ++p) w.ended(*p);
    queue.erase(queue.begin(), end);
  }
}

void check_waits(Wave& w, const Instruction& i) {
  // Another load may write the same register: they end in order, or with other lanes.
  const bool is_load = i.n_outputs != 0 && (i.kind == Class::global_load || i.kind == Class::lds ||
                                            i.kind == Class::scratch || i.kind == Class::scalar_load);
  for (const auto& queue : w.pending) {
    for (const Pending& p : queue) {
      if (p.n == 0) continue;
      for (uint32_t k = is_load ? 1 : 0; k < i.n_operands; k++) {
        const Operand& o = i.o[k];
        if (o.kind != p.kind || o.index >= p.first + p.n || p.first >= o.index + o.n) continue;
        return w.fail(i, "a register is used before its load was waited for");
      }
    }
  }
  if (i.second) check_waits(w, *i.second);
}

}  // namespace rocmforge::gpu::isa
