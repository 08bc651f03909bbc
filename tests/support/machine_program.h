#pragma once
// For tests: instructions written as text, run in a wave of their own or as a kernel. Needs no disassembler.

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "gpu/isa/execute.h"
#include "gpu/isa/hazards.h"
#include "support/support.h"

namespace rocmforge::gpu::isa::testing {

// A kernel of these lines. "name:" marks a place, which branches name. Its argument pointer is s[0:1], its block's x
// s15 (gfx942: s2); v0 is the thread's number.
inline Kernel program(const std::vector<std::string>& lines, const std::string& target = "gfx1100") {
  Kernel kernel;
  kernel.name = "program";
  kernel.target = *find_target(target);
  Descriptor& d = kernel.descriptor;
  d.kernarg_bytes = 64;
  d.lds_bytes = 1024;
  d.rsrc1 = 63 | 15u << 16;
  const bool is_wave64 = kernel.target.generation == 9;
  d.rsrc2 = (is_wave64 ? 2u : 15u) << 1 | 1u << 7;
  d.properties = static_cast<uint16_t>(1u << 3 | (is_wave64 ? 0u : 1u << 10));
  std::map<std::string, uint32_t> places;
  std::vector<std::pair<uint32_t, std::string>> branches;
  for (const std::string& line : lines) {
    const auto at = static_cast<uint32_t>(kernel.instructions.size());
    if (line.ends_with(":")) {
      places[line.substr(0, line.size() - 1)] = at;
      continue;
    }
    const size_t space = line.find(' ');
    const bool is_branch = line.starts_with("s_branch") || line.starts_with("s_cbranch");
    if (is_branch) branches.emplace_back(at, line.substr(space + 1));
    kernel.instructions.push_back(parse_instruction(is_branch ? line.substr(0, space) + " 0" : line));
    kernel.instructions.back().address = 4 * uint64_t{at};
  }
  for (const auto& [at, place] : branches) kernel.instructions[at].target = places.at(place);
  kernel.hazard = find_hazard(kernel);
  return kernel;
}

// One wave, all of whose lanes are active, and its registers.
class OneWave {
 public:
  explicit OneWave(const std::string& target = "gfx1100") : kernel_(program({}, target)), lds_(1024) {
    wave.kernel = &kernel_;
    wave.memory = &memory_;
    wave.lds = &lds_;
    wave.n_halves = kernel_.wave() / kHalf;
    wave.n_registers = 512;
    wave.v.resize(size_t{wave.n_halves} * wave.n_registers);
    wave.set_mask(kExec, ~uint64_t{0});
    lds_.clear();
  }

  void run(const std::string& text) {
    const Instruction i = parse_instruction(text);
    ASSERT_NE(i.run, nullptr) << text;
    i.run(wave, i);
    ASSERT_NE(wave.state, State::failed) << wave.failure;
  }
  uint32_t& v(uint32_t index, uint32_t lane) { return wave.at(index, lane); }
  void set64(uint32_t index, uint32_t lane, uint64_t value) {
    v(index, lane) = static_cast<uint32_t>(value);
    v(index + 1, lane) = static_cast<uint32_t>(value >> 32);
  }
  uint64_t get64(uint32_t index, uint32_t lane) {
    return v(index, lane) | static_cast<uint64_t>(v(index + 1, lane)) << 32;
  }

  Wave wave;

 private:
  Kernel kernel_;
  MemoryMap memory_;
  Lds lds_;
};

}  // namespace rocmforge::gpu::isa::testing
