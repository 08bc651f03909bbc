#pragma once
// What kernels did, added up over their launches.

#include <array>
#include <map>
#include <mutex>
#include <string>

#include "gpu/isa/execute.h"

namespace rocmforge::gpu::isa {

inline constexpr size_t kNumClasses = static_cast<size_t>(Class::other) + 1;
const char* class_name(Class kind);

struct Counts {
  uint64_t n_launches = 0, n_waves = 0;
  std::array<uint64_t, kNumClasses> n_by_class{};
  Traffic traffic;
};

// Instructions by class, a dual one counted once.
Counts counts_of(const Kernel& kernel, const Report& report);

// Threads: everything may be called from any thread.
class CountsOfAll {
 public:
  // path: a file that counts are appended to in the end, a line of JSON for each kernel; empty: none.
  explicit CountsOfAll(std::string path) : path_(std::move(path)) {}
  ~CountsOfAll();
  CountsOfAll(const CountsOfAll&) = delete;
  CountsOfAll& operator=(const CountsOfAll&) = delete;

  bool is_kept() const { return !path_.empty(); }
  void add(const Kernel& kernel, const Launch& launch, const Report& report);

 private:
  struct Row {
    std::string target;
    uint32_t n_registers = 0, lds_bytes = 0, n_threads = 0;
    Counts counts;
  };
  std::string path_;
  std::mutex mutex_;
  std::map<std::string, Row> rows_;  // by kernel
};

}  // namespace rocmforge::gpu::isa
