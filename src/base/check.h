#pragma once
// CHECK is for our own bugs only: a broken invariant inside this program. A file, a request or the
// environment can never make one fail; those produce an Error.

namespace rocmforge {

// Logs the message and aborts.
[[noreturn]] void fail_check(const char* file, int line, const char* what);

}  // namespace rocmforge

#define CHECK(condition) \
  (__builtin_expect(!(condition), 0) ? ::rocmforge::fail_check(__FILE__, __LINE__, #condition) : (void)0)
#define RF_UNREACHABLE(why) ::rocmforge::fail_check(__FILE__, __LINE__, why)
