#pragma once
// A fiber is a stack and the callee-saved registers. On x86-64 a switch is a few instructions of our own (ucontext
// makes a system call each time and is 30 times slower); other machines use ucontext.

#include <cstddef>
#include <cstdint>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace rocmforge::gpu::emu {

#if defined(__x86_64__)

using Fiber = void*;  // the stack pointer; everything else is on the stack

[[gnu::naked, gnu::noinline]] inline void switch_stack(void** /*save*/, void* /*to*/) {
  asm volatile(
      "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
      "movq %rsp,(%rdi)\n movq %rsi,%rsp\n"
      "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n"
      "popq %rcx\n jmp *%rcx");
}

inline void switch_fiber(Fiber& from, Fiber& to) {
  switch_stack(&from, to);
}

// A fiber that starts in `entry`, which never returns.
inline Fiber make_fiber(std::byte* stack, size_t n_bytes, void (*entry)()) {
  auto top = reinterpret_cast<uintptr_t>(stack + n_bytes) & ~uintptr_t{15};
  auto* sp = reinterpret_cast<void**>(top);
  *--sp = nullptr;  // the return address of entry: aligns its frame as after a call
  *--sp = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; i++) *--sp = nullptr;
  return sp;
}

#else

using Fiber = ucontext_t;

inline void switch_fiber(Fiber& from, Fiber& to) {
  swapcontext(&from, &to);
}

inline Fiber make_fiber(std::byte* stack, size_t n_bytes, void (*entry)()) {
  Fiber out;
  getcontext(&out);
  out.uc_stack.ss_sp = stack;
  out.uc_stack.ss_size = n_bytes;
  out.uc_link = nullptr;
  makecontext(&out, entry, 0);
  return out;
}

#endif

}  // namespace rocmforge::gpu::emu
