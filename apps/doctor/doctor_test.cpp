#include "doctor/doctor.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "support/support.h"

namespace rocmforge {
namespace {

namespace fs = std::filesystem;

// A machine made of files.
class Doctor : public ::testing::Test {
 protected:
  Doctor() {
    machine_.root = dir_.path();
    machine_.can_open = [this](const std::string& path) { return !closed_.contains(path.substr(dir_.path().size())); };
    machine_.user_groups = {"users"};
    machine_.cpu = "cpu (avx2, 8 threads)";
    machine_.available_bytes = uint64_t{64} << 30;
    machine_.hip_targets = {"gfx90a", "gfx1030", "gfx1100", "gfx1201"};
  }

  void put(const std::string& path, const std::string& text = "") {
    const fs::path file = dir_.path() + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void put_pci(const std::string& name, const std::string& vendor, const std::string& kind) {
    put("/sys/bus/pci/devices/" + name + "/vendor", vendor + "\n");
    put("/sys/bus/pci/devices/" + name + "/class", kind + "\n");
  }
  // A card with everything it needs.
  void put_amd(uint32_t target) {
    put_pci("0000:03:00.0", "0x1002", "0x030000");
    put("/dev/kfd");
    put("/dev/dri/renderD128");
    put("/dev/dri/card0");
    put("/sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 16\ngfx_target_version 0\n");
    put("/sys/class/kfd/kfd/topology/nodes/1/properties",
        "cpu_cores_count 0\nsimd_count 192\ngfx_target_version " + std::to_string(target) + "\ndrm_render_minor 128\n");
    machine_.hip_module = "/opt/librocmforge-hip.so";
    machine_.hip_library = {"libamdhip64.so.6", "6.3", "/opt/rocm-6.3/lib/libamdhip64.so.6"};
    machine_.gpus.devices.push_back({"gpu:0", "hip", "AMD Radeon", uint64_t{24} << 30, 0});
  }

  std::vector<Finding> about(const std::string& topic) const {
    std::vector<Finding> found;
    for (const Finding& f : examine(machine_)) {
      if (f.topic == topic) found.push_back(f);
    }
    return found;
  }
  // The one finding of a topic that is not well.
  Finding trouble(const std::string& topic) const {
    std::vector<Finding> found = about(topic);
    std::erase_if(found, [](const Finding& f) { return f.health == Health::ok; });
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? Finding{} : found[0];
  }

  const testing::TempDir dir_;
  std::set<std::string> closed_;
  Machine machine_;
};

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_F(Doctor, AMachineWithoutGpusIsWell) {
  put_pci("0000:00:02.0", "0x8086", "0x030000");
  put_pci("0000:00:1f.0", "0x1002", "0x060100");  // AMD, and no display
  for (const Finding& f : examine(machine_)) EXPECT_EQ(f.health, Health::ok) << f.fact;
  ASSERT_EQ(about("hip").size(), 1u);
  EXPECT_EQ(about("hip")[0].fact, "no AMD GPU in this machine");
  EXPECT_EQ(about("cuda")[0].fact, "no NVIDIA GPU in this machine");
}

TEST_F(Doctor, TellsTheTargetOfAmdGpus) {
  put_amd(110000);
  EXPECT_EQ(amd_targets(dir_.path()), std::vector<std::string>{"gfx1100"});
  for (const auto& [number, name] : std::map<uint32_t, std::string>{
           {90010, "gfx90a"}, {90402, "gfx942"}, {100300, "gfx1030"}, {110501, "gfx1151"}, {120001, "gfx1201"}}) {
    put_amd(number);
    EXPECT_EQ(amd_targets(dir_.path()), std::vector<std::string>{name});
  }
  EXPECT_TRUE(amd_targets("/nowhere").empty());
}

TEST_F(Doctor, AnAmdGpuThatIsCoveredIsWell) {
  put_amd(110000);
  std::string all;
  for (const Finding& f : about("hip")) {
    EXPECT_EQ(f.health, Health::ok) << f.fact;
    all += f.fact + "\n";
  }
  EXPECT_EQ(all,
            "module /opt/librocmforge-hip.so\n/dev/kfd, /dev/dri/renderD128\ngfx1100 is covered\n"
            "libamdhip64.so.6 at /opt/rocm-6.3/lib/libamdhip64.so.6, version 6.3\ngpu:0 is AMD Radeon, 24.0 GiB\n");
}

TEST_F(Doctor, TellsWhatAnIntegratedGpuMayTakeOfTheSystemsMemory) {
  put_amd(110501);
  machine_.hip_targets.push_back("gfx1151");
  put("/sys/class/drm/card0/device/mem_info_vram_total", "536870912\n");
  put("/sys/class/drm/card0/device/mem_info_gtt_total", "66571993088\n");
  put("/proc/sys/kernel/osrelease", "6.12.1\n");
  put("/proc/meminfo", "MemTotal:       133169152 kB\nMemFree: 1 kB\n");
  bool is_told = false;
  for (const Finding& f : about("hip")) {
    EXPECT_EQ(f.health, Health::ok) << f.fact;
    if (!says(f.fact, "card0 has 512 MiB")) continue;
    is_told = true;
    EXPECT_TRUE(says(f.fact, "62.0 GiB of the system's memory; kernel 6.12.1")) << f.fact;
    // Three quarters of 127 GiB, in pages of 4 KiB, put where Debian's boot loader finds it.
    EXPECT_TRUE(says(f.advice, "ttm.pages_limit=24969216 ") && says(f.advice, "sudo update-grub")) << f.advice;
  }
  EXPECT_TRUE(is_told);
  put("/sys/class/drm/card0/device/mem_info_gtt_total", "123000000000\n");  // more than that already
  for (const Finding& f : about("hip")) EXPECT_TRUE(f.advice.empty()) << f.advice;
  put("/sys/class/drm/card0/device/mem_info_vram_total", "25753026560\n");  // a card of its own
  for (const Finding& f : about("hip")) EXPECT_FALSE(says(f.fact, "card0")) << f.fact;
}

TEST_F(Doctor, SaysWhatWsl2Needs) {
  put("/dev/dxg");
  EXPECT_TRUE(says(trouble("hip").fact, "WSL2"));
  EXPECT_TRUE(says(trouble("hip").advice, "HSA_ENABLE_DXG_DETECTION=1"));
}

TEST_F(Doctor, SaysWhatToDoAboutATargetThatIsNotCovered) {
  put_amd(110003);
  Finding f = trouble("hip");
  EXPECT_TRUE(says(f.fact, "gfx1103 is not among")) << f.fact;
  EXPECT_TRUE(says(f.advice, "make gpu RF_HIP_TARGETS=gfx1103 in the source tree; or,")) << f.advice;
  EXPECT_TRUE(says(f.advice, "at your own risk, export HSA_OVERRIDE_GFX_VERSION=11.0.0")) << f.advice;
  put_amd(90008);
  EXPECT_TRUE(says(trouble("hip").advice, "RF_HIP_TARGETS=gfx908")) << trouble("hip").advice;
  EXPECT_TRUE(says(trouble("hip").advice, "HSA_OVERRIDE_GFX_VERSION=9.0.10")) << trouble("hip").advice;
  put_amd(80003);  // no kernel of ours compiles for it
  EXPECT_EQ(trouble("hip").advice, "the CPU runs every model");
  machine_.hip_override = "9.0.0";
  EXPECT_TRUE(says(trouble("hip").fact, "HSA_OVERRIDE_GFX_VERSION=9.0.0 is set")) << trouble("hip").fact;
  put_amd(110000);  // the variable that helped an older card spoils a new one
  EXPECT_EQ(trouble("hip").advice, "unset HSA_OVERRIDE_GFX_VERSION");
}

TEST_F(Doctor, SaysWhatToDoAboutNodesAndTheModule) {
  put_amd(110000);
  closed_ = {"/dev/kfd"};
  const Finding f = trouble("hip");
  EXPECT_TRUE(says(f.fact, "/dev/kfd cannot be opened") && says(f.fact, "users")) << f.fact;
  EXPECT_TRUE(says(f.advice, "sudo usermod -aG render,video $USER")) << f.advice;
  EXPECT_TRUE(says(f.advice, "--group-add $(stat -c %g /dev/kfd)")) << f.advice;
  closed_ = {};

  machine_.hip_module = {};
  EXPECT_TRUE(says(trouble("hip").advice, "sudo apt install ./rocmforge-hip_*.deb")) << trouble("hip").advice;
  machine_.source_tree = "/home/me/rocm forge";
  EXPECT_EQ(trouble("hip").advice, "make -C '/home/me/rocm forge' gpu");
  machine_.hip_module = "m";
  machine_.gpus = {.devices = {}, .absences = {"hip: device 0: broken", "cuda: no module"}};
  EXPECT_TRUE(says(trouble("hip").fact, "broken"));
  machine_.gpus = {.devices = {{"gpu:0", "hip", "AMD Radeon", 1, 0}}, .absences = {}};
  fs::remove(dir_.file("dev/kfd"));
  EXPECT_TRUE(says(trouble("hip").advice, "sudo modprobe amdgpu"));
}

TEST_F(Doctor, SaysWhichLibraryOfRocmIsUsedAndHowToChooseAnother) {
  put_amd(100300);
  machine_.hip_library = {};
  EXPECT_TRUE(says(trouble("hip").fact, "libamdhip64.so.7, .6 or .5"));
  EXPECT_TRUE(says(trouble("hip").advice, "sudo apt install libamdhip64-5")) << trouble("hip").advice;
  put_amd(110000);
  machine_.hip_library = {};
  EXPECT_TRUE(says(trouble("hip").advice, "sudo apt install hip-runtime-amd")) << trouble("hip").advice;

  // There is one, and the loader does not know.
  put("/opt/rocm-6.3/lib/libamdhip64.so.6");
  fs::create_directory_symlink("rocm-6.3", dir_.file("opt/rocm"));
  EXPECT_TRUE(says(trouble("hip").advice, "echo /opt/rocm/lib | sudo tee /etc/ld.so.conf.d/rocm.conf && sudo ldconfig"))
      << trouble("hip").advice;
  EXPECT_TRUE(says(trouble("hip").advice, "ROCMFORGE_HIP_LIBRARY=/opt/rocm/lib/libamdhip64.so.6"));

  // One was chosen that is none.
  machine_.hip_library_choice = "/nowhere.so";
  machine_.hip_library.why_not = "no such file";
  EXPECT_TRUE(says(trouble("hip").fact, "ROCMFORGE_HIP_LIBRARY says: /nowhere.so (no such file)"))
      << trouble("hip").fact;
  EXPECT_TRUE(says(trouble("hip").advice, "unset ROCMFORGE_HIP_LIBRARY"));
  machine_.hip_library_choice = {};

  // Debian 12's own is older than the card.
  machine_.hip_library = {"libamdhip64.so.5", "5.2", "/usr/lib/x86_64-linux-gnu/libamdhip64.so.5"};
  EXPECT_TRUE(says(trouble("hip").fact, "ROCm 5.2 is older than gfx1100")) << trouble("hip").fact;
  machine_.hip_library = {"libamdhip64.so.6", "6.3", "/opt/rocm-6.3/lib/libamdhip64.so.6"};
  for (const Finding& f : about("hip")) EXPECT_EQ(f.health, Health::ok) << f.fact;

  // Two of them: the one behind a link is not counted twice.
  put("/opt/rocm-7.0/lib/libamdhip64.so.7");
  bool is_told = false;
  for (const Finding& f : about("hip")) {
    EXPECT_EQ(f.health, Health::ok) << f.fact;
    if (!says(f.fact, "more than one ROCm: /opt/rocm/lib/libamdhip64.so.6, /opt/rocm-7.0/lib/libamdhip64.so.7"))
      continue;
    is_told = true;
    EXPECT_TRUE(says(f.advice, "export ROCMFORGE_HIP_LIBRARY=/opt/rocm-7.0/lib/libamdhip64.so.7")) << f.advice;
  }
  EXPECT_TRUE(is_told);
}

TEST_F(Doctor, SaysWhatToDoAboutAnNvidiaGpu) {
  put_pci("0000:01:00.0", "0x10de", "0x030200");
  machine_.cuda_module = "m";
  machine_.cuda_library = {"libcuda.so.1", "13.0"};
  machine_.gpus.devices.push_back({"gpu:0", "cuda", "NVIDIA H200", uint64_t{139} << 30, 0});
  EXPECT_TRUE(says(trouble("cuda").fact, "no /dev/nvidia*"));
  put("/dev/nvidiactl");
  put("/dev/nvidia0");
  fs::create_directories(dir_.file("dev/nvidia-caps"));
  put("/proc/driver/nvidia/version", "NVRM version: 580\n");
  for (const Finding& f : about("cuda")) EXPECT_EQ(f.health, Health::ok) << f.fact;
  closed_ = {"/dev/nvidia0"};
  EXPECT_TRUE(says(trouble("cuda").fact, "/dev/nvidia0 cannot"));
}

TEST_F(Doctor, SaysInAFewWordsWhyNoGpuIsUsed) {
  EXPECT_EQ(why_not_gpu(machine_), kNoGpu);
  put_amd(110000);
  EXPECT_EQ(why_not_gpu(machine_), "the driver shows none (rocmforge doctor)");
  closed_ = {"/dev/dri/renderD128"};
  EXPECT_TRUE(says(why_not_gpu(machine_), "/dev/dri/renderD128 cannot be opened by this user"));
  machine_.hip_module = {};
  machine_.source_tree = "/src";
  EXPECT_EQ(why_not_gpu(machine_), "no module for the AMD GPU: make -C '/src' gpu (rocmforge doctor)");
  machine_.hip_module = "m";
  closed_ = {};
  fs::remove(dir_.file("dev/kfd"));
  EXPECT_TRUE(says(why_not_gpu(machine_), "the driver of the AMD GPU is not loaded"));
  put("/dev/kfd");
  put_pci("0000:01:00.0", "0x10de", "0x030200");
  put("/dev/nvidiactl");
  EXPECT_TRUE(says(why_not_gpu(machine_), "no module for the NVIDIA GPU: make"));
}

TEST_F(Doctor, AGpuIsUnusedWhenItIsHereAndNoneCanBeUsed) {
  EXPECT_FALSE(has_unused_gpu(machine_));
  put_amd(110000);
  EXPECT_FALSE(has_unused_gpu(machine_));
  put_amd(110003);  // shown by the driver, and our module has no code for it
  EXPECT_TRUE(has_unused_gpu(machine_));
  machine_.hip_override = "11.0.0";
  EXPECT_FALSE(has_unused_gpu(machine_));
  machine_.gpus.devices.clear();
  EXPECT_TRUE(has_unused_gpu(machine_));
  machine_.gpus.devices = {{"gpu:0", "cuda", "NVIDIA H200", 1, 0}};  // the processor's GPU beside a card that is used
  EXPECT_FALSE(has_unused_gpu(machine_));
}

TEST_F(Doctor, NamesIntegratedGpusAsSuch) {
  put_amd(110000);
  machine_.gpus.devices.push_back({"gpu:1", "hip", "AMD Radeon Graphics", uint64_t{60} << 30, 1, true});
  EXPECT_EQ(about("hip").back().fact, "gpu:1 is AMD Radeon Graphics, 60.0 GiB, integrated: used when there is no card");
}

TEST(DoctorRanking, PutsIntegratedGpusBehindCardsHoweverMuchMemoryTheyTake) {
  std::vector<gpu::FoundDevice> devices = {{"", "hip", "apu", 96, 0, true},
                                           {"", "hip", "small", 8, 1},
                                           {"", "cuda", "large", 24, 0},
                                           {"", "cuda", "small too", 8, 1}};
  gpu::rank_devices(devices);
  std::string order;
  for (const gpu::FoundDevice& d : devices) order += d.id + " " + d.name + ", ";
  EXPECT_EQ(order, "gpu:0 large, gpu:1 small, gpu:2 small too, gpu:3 apu, ");
}

TEST_F(Doctor, OnlyACpuThatDoesNotComputeIsFatal) {
  machine_.cpu_error = Error{ErrorCode::model_not_finite, "NaN"};
  EXPECT_EQ(trouble("cpu").health, Health::fail);
  machine_.available_bytes = 1;
  EXPECT_EQ(trouble("memory").health, Health::warn);
}

TEST(DoctorSelfTest, NamesEachFamilyWhatIsNotUsedAndWhatWasRemembered) {
  const gpu::FoundDevice card{"gpu:0", "hip", "7900 XTX", 24, 0, false, 96, "gfx1100"};
  gpu::SelfTestReport report{gpu::self_test_families(), 0.031};
  const auto text = [&](const std::optional<gpu::SelfTestReport>& known) {
    std::string out;
    for (const Finding& f : examine_self_test(card, report, known)) {
      out += std::string(health_name(f.health)) + " " + f.topic + " " + f.fact + "\n";
    }
    return out;
  };
  EXPECT_EQ(text({}).find("fail"), std::string::npos);
  EXPECT_NE(text({}).find("ok gpu:0 7900 XTX, gfx1100: norms are right\n"), std::string::npos);
  EXPECT_NE(text({}).find("the self-test took 31 ms; nothing was remembered"), std::string::npos);
  const gpu::SelfTestReport passed = report;
  report.results[0].fault = "row 0, column 1: 3 instead of 5";
  const std::string said = text(passed);
  EXPECT_NE(said.find("fail gpu:0 7900 XTX, gfx1100: matrix fragments: row 0, column 1: 3 instead of 5\n"),
            std::string::npos);
  EXPECT_NE(said.find("fail gpu:0 7900 XTX, gfx1100: matrix instructions are not used: "), std::string::npos);
  EXPECT_EQ(said.find("the device is not used"), std::string::npos);
  EXPECT_NE(said.find("remembered of this driver and module: it passes\n"), std::string::npos);
  EXPECT_NE(text(report).find("remembered of this driver and module: it fails\n"), std::string::npos);
  for (gpu::SelfTestResult& r : report.results) r.fault = "wrong";
  const std::string all = text({});
  EXPECT_NE(all.find("the device is not used"), std::string::npos);
  EXPECT_NE(all.find("passes are not recorded"), std::string::npos);
}

TEST(DoctorMachine, CanBeLookedAt) {
  const Machine machine = look_at_machine();
  EXPECT_EQ(machine.root, "");
  EXPECT_TRUE(machine.can_open("/dev/null"));
  EXPECT_FALSE(machine.can_open("/dev/not-there"));
  EXPECT_FALSE(machine.hip_targets.empty());
}

}  // namespace
}  // namespace rocmforge
