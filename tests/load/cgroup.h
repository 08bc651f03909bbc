#pragma once
// A control group for a child process, of version 1 or 2; none where the system lets us make none.

#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace rocmforge::load {

class Cgroup {
 public:
  // `controller`: memory or pids.
  explicit Cgroup(std::string_view controller) {
    const std::filesystem::path root = "/sys/fs/cgroup";
    std::error_code error;
    const bool is_second = std::filesystem::exists(root / "cgroup.controllers", error);
    static int n_made = 0;
    const auto name = fmt::format("rocmforge-attack-{}-{}", getpid(), n_made++);
    path_ = is_second ? root / name : root / controller / name;
    is_second_ = is_second;
    is_made_ = std::filesystem::create_directory(path_, error);
  }
  ~Cgroup() {
    std::error_code error;
    if (is_made_) std::filesystem::remove(path_, error);
  }
  Cgroup(const Cgroup&) = delete;
  Cgroup& operator=(const Cgroup&) = delete;

  bool limit_memory(uint64_t n_bytes) {
    const std::string text = std::to_string(n_bytes);
    if (is_second_) return write("memory.max", text) && write("memory.swap.max", "0");
    // The second file is there only where swap is counted.
    return write("memory.limit_in_bytes", text) && (write("memory.memsw.limit_in_bytes", text) || true);
  }
  bool limit_threads(uint64_t n) { return write("pids.max", std::to_string(n)); }
  bool add(pid_t pid) { return write("cgroup.procs", std::to_string(pid)); }

 private:
  bool write(const char* file, const std::string& text) {
    const auto path = path_ / file;
    std::error_code error;
    if (!is_made_ || !std::filesystem::exists(path, error)) return false;
    std::ofstream out(path);
    out << text << std::flush;
    return out.good();
  }
  std::filesystem::path path_;
  bool is_made_ = false, is_second_ = false;
};

}  // namespace rocmforge::load
