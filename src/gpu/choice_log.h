#pragma once
// Which kernels were chosen for what, told once for each shape at log level debug (ROCMFORGE_LOG=debug).
//
// Threads: one at a time.

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"

namespace rocmforge::gpu {

class ChoiceLog {
 public:
  // The launches to come compute this; empty: nothing that is told.
  void begin(std::string what) { what_ = std::move(what); }
  bool is_telling() const { return !what_.empty(); }
  void chosen(std::string_view kernel) {
    const auto [told, is_new] = told_.emplace(what_, kernel);
    if (is_new) log(LogLevel::debug, "gpu: {}: {}", told->first, told->second);
  }

 private:
  std::string what_;
  std::set<std::pair<std::string, std::string>> told_;
};

}  // namespace rocmforge::gpu
