#pragma once
// What the parts of `examine` share: the files of a machine, and the list that findings are added to.

#include <string>
#include <string_view>
#include <vector>

#include "doctor/doctor.h"

namespace rocmforge::doctor {

inline constexpr std::string_view kAmd = "0x1002", kNvidia = "0x10de";  // as PCI has them

// Files of a tree that may be another machine's.
class Tree {
 public:
  explicit Tree(const Machine& machine) : machine_(machine) {}

  bool exists(const std::string& path) const;
  bool is_folder(const std::string& path) const;
  bool can_open(const std::string& path) const { return machine_.can_open(machine_.root + path); }
  std::string first_line(const std::string& path) const;
  uint64_t number(const std::string& path) const;  // 0 where there is none
  // "/dev/dri/renderD128", ... sorted
  std::vector<std::string> with_prefix(const std::string& folder, std::string_view prefix) const;
  // A PCI display device of this vendor.
  bool has_gpu_of(std::string_view vendor) const;
  // The system's memory as the kernel tells it.
  uint64_t memory_bytes() const;

  bool has_amd() const { return has_gpu_of(kAmd) || exists("/dev/kfd"); }
  bool has_nvidia() const { return has_gpu_of(kNvidia) || !nvidia_nodes().empty(); }
  bool is_wsl() const { return exists("/dev/dxg") && !exists("/dev/kfd"); }
  std::vector<std::string> amd_nodes() const;  // /dev/kfd and those of the cards
  std::vector<std::string> nvidia_nodes() const;

 private:
  const Machine& machine_;
};

std::string joined(const std::vector<std::string>& parts, std::string_view between = ", ");
bool contains(const std::vector<std::string>& list, std::string_view item);

// The command that gets the module of "hip" or "cuda".
std::string module_command(const Machine& machine, std::string_view module);

// Whether the driver shows a device of this module that its code runs on.
bool has_usable_device(const Machine& machine, std::string_view module);

// One vendor's way from the card to our kernels, told in the order in which it is built up.
class GpuReport {
 public:
  GpuReport(std::vector<Finding>& out, std::string module, const Machine& machine)
      : out_(out), module_(std::move(module)), machine_(machine) {}

  void add(Health health, std::string fact, std::string advice = {}) {
    out_.push_back({health, module_, std::move(fact), std::move(advice)});
  }
  void module(const std::optional<std::string>& path);
  void library(const GpuLibrary& library, std::string_view wanted, const std::string& advice);
  // Whether the nodes can be opened; a node that cannot is a matter of groups.
  void nodes(const std::vector<std::string>& paths, std::string_view groups, std::string_view in_a_container);
  void devices(std::string_view advice);

 private:
  std::vector<Finding>& out_;
  const std::string module_;
  const Machine& machine_;
};

void examine_hip(std::vector<Finding>& out, const Machine& machine);
void examine_cuda(std::vector<Finding>& out, const Machine& machine);

}  // namespace rocmforge::doctor
