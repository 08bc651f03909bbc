#include "gguf/quantize.h"

#include <fmt/core.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/units.h"
#include "commands.h"
#include "model_path.h"
#include "stop_signals.h"
#include "terminal.h"

namespace rocmforge::apps {

Result<void> quantize(const QuantizeCommand& options) {
  const gguf::Mix& mix = *gguf::find_mix(options.type);
  const std::string in = TRY(find_model(options.in));
  const Clock clock = system_clock();
  const TimePoint begin = clock();
  gguf::QuantizeReport report;
  {
    const StopSignals signals;
    ProgressLine line;
    auto made = gguf::quantize_file(
        in, options.out, mix,
        {.pure = options.pure,
         .allow_requantize = options.allow_requantize,
         .n_threads = options.n_threads,
         .output = StopSignals::output(options.overwrite)},
        [&](const gguf::QuantizeProgress& p) {
          line.update([&] {
            const double n_per_second = static_cast<double>(p.n_done) / seconds(clock() - begin);
            return fmt::format("{:3}%  {}/s  {}", 100 * p.n_done / std::max<uint64_t>(1, p.n_total),
                               format_count(static_cast<uint64_t>(n_per_second)), printable(p.tensor, 48));
          });
        });
    line.clear();
    if (!made.ok()) return signals.explained(std::move(made).error());
    report = *made;
  }
  const double elapsed = seconds(clock() - begin);
  if (!options.json) {
    return print(fmt::format("{}: {}, {} of {} tensors converted, {} -> {}, relative error {:.3g}, {:.1f} s\n",
                             printable(options.out, 1000), mix.name, report.n_converted, report.n_tensors,
                             format_bytes(report.bytes_before), format_bytes(report.bytes_after), report.relative_error,
                             elapsed));
  }
  JsonWriter json;
  json.begin_object();
  json.key("path").value(options.out);
  json.key("type").value(mix.name);
  json.key("n_tensors").value(report.n_tensors);
  json.key("n_converted").value(report.n_converted);
  json.key("bytes_before").value(report.bytes_before);
  json.key("bytes_after").value(report.bytes_after);
  json.key("relative_error").value(report.relative_error);
  json.key("seconds").value(elapsed);
  json.end_object();
  return print(json.take() + "\n");
}

}  // namespace rocmforge::apps
