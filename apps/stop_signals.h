#pragma once
// SIGINT, SIGTERM and SIGHUP while a command writes a file: the command removes what it wrote, then ends as the signal
// would have ended it.

#include "base/file_writer.h"

namespace rocmforge::apps {

// While it lives the first signal of a kind sets a flag, and the second one ends the program. A signal that was ignored
// before (nohup) stays ignored.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  static bool is_set();

  // How an output file is written: it stops at a signal, and an existing file is replaced only when `overwrite` says
  // so.
  static WriteOptions output(bool overwrite);

  // What a failed command hands on: after a signal it does not return, and file_exists names the flag.
  Error explained(Error error) const;
};

}  // namespace rocmforge::apps
