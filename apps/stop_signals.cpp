#include "stop_signals.h"

#include <csignal>

namespace rocmforge::apps {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

// A signal handler can reach nothing but globals.
volatile std::sig_atomic_t g_signal = 0;

extern "C" void note_signal(int number) {
  g_signal = number;
}

}  // namespace

StopSignals::StopSignals() {
  g_signal = 0;
  for (const int number : kSignals) {
    struct sigaction before{}, action{};
    if (::sigaction(number, nullptr, &before) != 0 || before.sa_handler == SIG_IGN) continue;
    action.sa_handler = note_signal;
    action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
    ::sigaction(number, &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (const int number : kSignals) {
    struct sigaction now{};
    if (::sigaction(number, nullptr, &now) == 0 && now.sa_handler == note_signal) std::signal(number, SIG_DFL);
  }
}

bool StopSignals::is_set() {
  return g_signal != 0;
}

WriteOptions StopSignals::output(bool overwrite) {
  return {.existing = overwrite ? ExistingFile::replace : ExistingFile::refuse, .should_stop = [] { return is_set(); }};
}

Error StopSignals::explained(Error error) const {
  if (error.code == ErrorCode::cancelled && is_set()) {
    std::signal(g_signal, SIG_DFL);
    std::raise(g_signal);
  }
  if (error.code == ErrorCode::file_exists) error.message += "; --overwrite replaces it";
  return error;
}

}  // namespace rocmforge::apps
