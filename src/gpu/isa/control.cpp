// Instructions that compute nothing: waits, barriers, caches, ends.

#include "gpu/isa/lanes.h"

namespace rocmforge::gpu::isa {
namespace {

void nothing(Wave&, const Instruction&) {}
void s_endpgm(Wave& w, const Instruction&) {
  w.state = State::done;
}

// ---- barriers ----

// Stores to shared memory must have arrived: the barrier itself waits for waves alone.
bool stores_have_arrived(Wave& w, const Instruction& i) {
  for (const Pending& p : w.pending[kLds]) {
    if (p.is_lds_store) return w.fail(i, "stores to shared memory were not waited for before the barrier"), false;
  }
  return true;
}
void s_barrier(Wave& w, const Instruction& i) {
  if (stores_have_arrived(w, i)) w.state = State::at_barrier;
}
void s_barrier_signal(Wave& w, const Instruction& i) {
  if (w.has_signalled) return w.fail(i, "a second signal to a barrier that was not waited at");
  w.has_signalled = stores_have_arrived(w, i);
}
void s_barrier_wait(Wave& w, const Instruction& i) {
  if (!w.has_signalled) return w.fail(i, "a wait at a barrier that the wave did not signal to");
  w.has_signalled = false;
  w.state = State::at_barrier;
}

// ---- caches ----

void buffer_gl0_inv(Wave& w, const Instruction&) {
  w.visibility.invalidate_near();
}
void buffer_gl1_inv(Wave& w, const Instruction&) {
  w.visibility.invalidate_far();
}
void buffer_wbinvl1_vol(Wave& w, const Instruction&) {
  w.visibility.invalidate(Scope::device);
}
void invalidate(Wave& w, const Instruction& i) {
  w.visibility.invalidate(i.scope);
}
void write_back(Wave& w, const Instruction& i) {
  w.visibility.issue_write_back(i.scope);
  w.write_back_begins();
}

}  // namespace

void add_control(Table& t) {
  for (const char* name : {"s_nop", "s_delay_alu", "s_clause", "s_set_inst_prefetch_distance", "s_inst_prefetch",
                           "s_sendmsg", "s_waitcnt_depctr", "s_wait_alu", "v_nop"}) {
    t[name] = {nothing};
  }
  for (const char* name : {"s_waitcnt", "s_waitcnt_vscnt", "s_wait_loadcnt", "s_wait_storecnt", "s_wait_dscnt",
                           "s_wait_kmcnt", "s_wait_loadcnt_dscnt", "s_wait_storecnt_dscnt"}) {
    t[name] = {wait_for_memory};
  }
  t["s_endpgm"] = {s_endpgm};
  t["s_barrier"] = {s_barrier};
  t["s_barrier_signal"] = {s_barrier_signal};
  t["s_barrier_wait"] = {s_barrier_wait};
  t["buffer_gl0_inv"] = {buffer_gl0_inv};
  t["buffer_gl1_inv"] = {buffer_gl1_inv};
  t["buffer_wbinvl1_vol"] = {buffer_wbinvl1_vol};
  t["buffer_inv"] = t["global_inv"] = {invalidate};
  t["buffer_wbl2"] = t["global_wb"] = {write_back};
}

}  // namespace rocmforge::gpu::isa
