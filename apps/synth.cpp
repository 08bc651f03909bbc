#include "gguf/synth.h"

#include <fmt/core.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/units.h"
#include "commands.h"
#include "stop_signals.h"
#include "terminal.h"

namespace rocmforge::apps {

Result<void> synth(const SynthCommand& options) {
  const gguf::Shape& shape = *gguf::find_shape(options.shape);
  const gguf::Mix& mix = *gguf::find_mix(options.type);
  const Clock clock = system_clock();
  const TimePoint begin = clock();
  gguf::SynthReport report;
  {
    const StopSignals signals;
    ProgressLine line;
    auto made = gguf::synthesize(options.out, shape, mix,
                                 {.pure = options.pure,
                                  .sparse = options.sparse,
                                  .seed = options.seed,
                                  .output = StopSignals::output(options.overwrite)},
                                 [&](uint64_t n) { line.update([&] { return format_bytes(n); }); });
    line.clear();
    if (!made.ok()) return signals.explained(std::move(made).error());
    report = *made;
  }
  const double elapsed = seconds(clock() - begin);
  if (!options.json) {
    return print(fmt::format("{}: {} in {}, {} tensors, {}{}, {:.2f} s\n", printable(options.out, 1000), shape.name,
                             mix.name, report.n_tensors, format_bytes(report.file_bytes),
                             options.sparse ? " (weights are a hole)" : "", elapsed));
  }
  JsonWriter json;
  json.begin_object();
  json.key("path").value(options.out);
  json.key("shape").value(shape.name);
  json.key("type").value(mix.name);
  json.key("n_tensors").value(report.n_tensors);
  json.key("file_bytes").value(report.file_bytes);
  json.key("seconds").value(elapsed);
  json.end_object();
  return print(json.take() + "\n");
}

}  // namespace rocmforge::apps
