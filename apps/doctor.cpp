#include "doctor/doctor.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "base/json.h"
#include "base/units.h"
#include "commands.h"
#include "cpu/backend.h"
#include "cpu/memory.h"
#include "engine/model.h"
#include "engine/model_list.h"
#include "engine/sampler.h"
#include "engine/session.h"
#include "gpu/device.h"
#include "gpu/self_test.h"
#include "gpu/self_test_memory.h"
#include "model_path.h"
#include "terminal.h"
#include "user_folders.h"

namespace rocmforge::apps {
namespace {

// One token through the bundled model: whether the CPU computes at all.
Result<void> try_cpu(const std::string& path) {
  const std::unique_ptr<Model> model = TRY(Model::open(path, {.device = "cpu", .n_context = 64}));
  Session session = TRY(Session::create(model->plan(), {.n_context = 64}));
  const TokenId token = TRY(model->tokenizer())->bos().value_or(TokenId(0));
  const auto logits = TRY(session.evaluate(std::span(&token, 1)));
  TRY(sample(logits, {.temperature = 0}, {}, 0));
  return {};
}

Finding bundled_model(Machine& machine) {
  const auto path = find_bundled_model();
  if (!path.ok()) {
    return {Health::warn, "bundled", path.error().message, "commands need to be told a MODEL"};
  }
  if (const auto tried = try_cpu(*path); !tried.ok()) machine.cpu_error = tried.error();
  if (machine.cpu_error) return {Health::warn, "bundled", *path + " gives no answer", "see cpu"};
  return {Health::ok, "bundled", *path + " opens and answers"};
}

Finding models_folder() {
  const std::string directory = models_directory();
  if (directory.empty()) return {Health::warn, "models", "no models directory", "set ROCMFORGE_MODELS"};
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) {
    const bool is_set = std::getenv("ROCMFORGE_MODELS") != nullptr;
    return {is_set ? Health::warn : Health::ok, "models", fmt::format("{} is no directory", printable(directory, 200)),
            is_set ? "make it, or set ROCMFORGE_MODELS to another" : "make it and put GGUF files there"};
  }
  const auto models = list_models({.folders = {directory}, .cache_file = model_cache_file()});
  std::string broken;
  for (const ListedModel& m : models) {
    if (m.error) broken += (broken.empty() ? "" : ", ") + printable(m.name, 96);
  }
  const std::string fact = fmt::format("{} in {}", models.size(), printable(directory, 200));
  if (broken.empty()) return {Health::ok, "models", fact};
  return {Health::warn, "models", fact + fmt::format(", not usable: {}", broken), "`rocmforge models` says why"};
}

// One kernel of each family on each GPU, against the CPU, whatever is remembered; what is remembered is the new result.
void try_gpus(std::vector<Finding>& out, const gpu::Survey& survey) {
  for (const gpu::FoundDevice& found : survey.devices) {
    const auto api = gpu::open_module(found.module, gpu::module_folders());
    const auto device =
        api.ok() ? gpu::Device::open(**api, found.index) : Result<std::unique_ptr<gpu::Device>>(api.error());
    if (!device.ok()) {
      out.push_back({Health::fail, found.id, fmt::format("{}: {}", found.name, device.error().message), ""});
      continue;
    }
    const gpu::SelfTestKey key = gpu::self_test_key(found, gpu::module_folders());
    const auto known = gpu::remembered_self_test(self_test_file(), key);
    const gpu::SelfTestReport report = gpu::run_self_test(**device);
    gpu::remember_self_test(self_test_file(), key, report);
    std::ranges::move(examine_self_test(found, report, known), std::back_inserter(out));
  }
  if (survey.devices.empty()) out.push_back({Health::warn, "gpu", "there is none to test", ""});
}

std::string json_report(const std::vector<Finding>& findings) {
  JsonWriter w(JsonWriter::Style::pretty);
  w.begin_object().key("findings").begin_array();
  for (const Finding& f : findings) {
    w.begin_object().key("health").value(health_name(f.health)).key("topic").value(f.topic);
    w.key("fact").value(f.fact).key("advice").value(f.advice).end_object();
  }
  w.end_array().end_object();
  return w.take() + "\n";
}

std::string text_report(const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& f : findings) {
    out += fmt::format("{:<5} {:<8} {}\n", health_name(f.health), f.topic, printable(f.fact, 300));
    if (!f.advice.empty()) out += fmt::format("{:15}-> {}\n", "", printable(f.advice, 300));
  }
  return out;
}

}  // namespace

Result<void> doctor(const DoctorCommand& options) {
  Machine machine = look_at_machine();
  machine.cpu = CpuBackend().name();
  machine.available_bytes = cpu::available_memory();
  const Finding bundled = bundled_model(machine);
  std::vector<Finding> findings = examine(machine);
  findings.push_back(models_folder());
  findings.push_back(bundled);
  if (options.gpu) try_gpus(findings, machine.gpus);
  const bool has_faulty_gpu = std::ranges::any_of(
      findings, [](const Finding& f) { return f.health == Health::fail && f.topic.starts_with("gpu:"); });
  TRY(print(options.json ? json_report(findings) : text_report(findings)));
  if (machine.cpu_error) return Error{ErrorCode::device_failed, "the CPU does not compute as it should"};
  if (has_faulty_gpu) return Error{ErrorCode::device_failed, "a GPU does not compute as it should"};
  if (has_unused_gpu(machine))
    return Error{ErrorCode::device_unavailable, "a GPU is in this machine and cannot be used"};
  return {};
}

}  // namespace rocmforge::apps
