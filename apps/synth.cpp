#include "gguf/synth.h"

#include <fmt/core.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/units.h"
#include "commands.h"
#include "terminal.h"

namespace rocmforge::apps {

Result<void> synth(const SynthCommand& command) {
  const gguf::Shape& shape = *gguf::find_shape(command.shape);
  const gguf::Mix& mix = *gguf::find_mix(command.type);
  const Clock clock = system_clock();
  const TimePoint begin = clock();
  gguf::SynthReport report;
  {
    ProgressLine line;
    report = TRY(gguf::synthesize(command.out, shape, mix,
                                  {.pure = command.pure, .sparse = command.sparse, .seed = command.seed},
                                  [&](uint64_t n) { line.update([&] { return format_bytes(n); }); }));
  }
  const double elapsed = seconds(clock() - begin);
  if (!command.json) {
    return print(fmt::format("{}: {} in {}, {} tensors, {}{}, {:.2f} s\n", printable(command.out, 1000), shape.name,
                             mix.name, report.n_tensors, format_bytes(report.file_bytes),
                             command.sparse ? " (weights are a hole)" : "", elapsed));
  }
  JsonWriter json;
  json.begin_object();
  json.key("path").value(command.out);
  json.key("shape").value(shape.name);
  json.key("type").value(mix.name);
  json.key("n_tensors").value(report.n_tensors);
  json.key("file_bytes").value(report.file_bytes);
  json.key("seconds").value(elapsed);
  json.end_object();
  return print(json.take() + "\n");
}

}  // namespace rocmforge::apps
