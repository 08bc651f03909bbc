// Start-up, measured from outside: each repetition is a process of its own, timed from before it was started to its
// first token. The child reports when it reached each point, on the clock that all processes share.

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <vector>

#include "base/json.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "cpu/memory_rate.h"
#include "engine_commands.h"
#include "model_path.h"
#include "terminal.h"

extern char** environ;

namespace rocmforge::apps {
namespace {

constexpr const char* kPrompt = "Once";

struct Start {
  double open = 0;                                            // seconds that opening alone takes
  double plan = 0, tokenizer = 0, first_token = 0, exit = 0;  // seconds since the process was started
  double read_bytes = 0;
  double peak_bytes = 0, peak_anonymous_bytes = 0, pinned_bytes = 0;
  std::string backend;
};

int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

double number(const JsonValue& json, std::string_view key) {
  const JsonValue* value = json.find(key);
  if (!value) return 0;
  if (const auto* d = value->as<double>()) return *d;
  if (const auto* i = value->as<int64_t>()) return static_cast<double>(*i);
  return 0;
}

// Runs this very program as `bench load --started-at NS` and reads its report.
Result<Start> start_process(const BenchLoadCommand& options, const std::string& model) {
  int pipe_ends[2];
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) return Error{ErrorCode::file_read, "cannot make a pipe"};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  const int64_t started = now_ns();
  std::vector<std::string> words = {"rocmforge",    "bench",
                                    "load",         model,
                                    "--started-at", std::to_string(started),
                                    "--load",       options.engine.load == LoadMode::eager ? "eager" : "lazy"};
  words.insert(words.end(), {"--device", options.engine.device});
  if (options.engine.n_threads != 0) words.insert(words.end(), {"-t", std::to_string(options.engine.n_threads)});
  if (!options.engine.fuse) words.insert(words.end(), {"--fuse", "off"});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  const int failure = ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(pipe_ends[1]);
  std::string report;
  char buffer[4096];
  for (ssize_t n; failure == 0 && (n = ::read(pipe_ends[0], buffer, sizeof buffer)) > 0;) {
    report.append(buffer, static_cast<size_t>(n));
  }
  ::close(pipe_ends[0]);
  int status = -1;
  if (failure == 0) ::waitpid(child, &status, 0);
  const double exit = static_cast<double>(now_ns() - started) * 1e-9;
  if (failure != 0 || status != 0) return Error{ErrorCode::file_read, "the measured process failed"};
  const JsonValue json = TRY(parse_json(report));
  const auto* backend = json.find("backend") ? json.find("backend")->as<std::string>() : nullptr;
  return Start{.open = number(json, "open"),
               .plan = number(json, "plan"),
               .tokenizer = number(json, "tokenizer"),
               .first_token = number(json, "first_token"),
               .exit = exit,
               .read_bytes = number(json, "read_bytes"),
               .peak_bytes = number(json, "peak_bytes"),
               .peak_anonymous_bytes = number(json, "peak_anonymous_bytes"),
               .pinned_bytes = number(json, "pinned_bytes"),
               .backend = backend != nullptr ? *backend : ""};
}

// The rate of reading the file past the page cache, over at most 1 GiB of it: what a cold start cannot beat.
Result<double> direct_read_rate(const std::string& model, size_t n_threads) {
  const File file = TRY(File::open(model));
  constexpr size_t kPiece = 4u << 20;
  const size_t n_pieces = std::min<uint64_t>(file.size(), uint64_t{1} << 30) / kPiece;
  if (n_pieces == 0) return 0.0;
  ThreadPool pool(n_threads);
  std::vector<Result<void>> results(n_pieces);
  const int64_t start = now_ns();
  pool.run(n_pieces, [&](size_t i) {
    const std::unique_ptr<std::byte, decltype(&std::free)> buffer(
        static_cast<std::byte*>(std::aligned_alloc(File::kDirectAlignment, kPiece)), &std::free);
    results[i] = file.read_direct_at({buffer.get(), kPiece}, i * kPiece);
  });
  const double took = static_cast<double>(now_ns() - start) * 1e-9;
  for (auto& result : results) TRY(std::move(result));
  return static_cast<double>(n_pieces * kPiece) / took;
}

void drop_from_cache(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
}

Result<Start> best_start(const BenchLoadCommand& options, const std::string& model, bool cold) {
  Start best;
  best.exit = 1e30;
  for (uint32_t i = 0; i < options.n_repetitions; i++) {
    if (cold) drop_from_cache(model);
    const Start start = TRY(start_process(options, model));
    if (start.exit < best.exit) best = start;
  }
  return best;
}

void write_json(JsonWriter& w, std::string_view name, const Start& s, double limit) {
  w.key(name).begin_object().key("open_seconds").value(s.open).key("plan_seconds").value(s.plan);
  w.key("tokenizer_seconds").value(s.tokenizer).key("first_token_seconds").value(s.first_token);
  w.key("exit_seconds").value(s.exit).key("read_bytes").value(static_cast<uint64_t>(s.read_bytes));
  w.key("gigabytes_per_second").value(s.read_bytes / s.first_token / 1e9);
  w.key("share_of_limit").value(s.read_bytes / s.first_token / limit);
  w.key("peak_bytes").value(static_cast<uint64_t>(s.peak_bytes));
  w.key("peak_anonymous_bytes").value(static_cast<uint64_t>(s.peak_anonymous_bytes));
  w.key("pinned_bytes").value(static_cast<uint64_t>(s.pinned_bytes)).end_object();
}

// What the kernel counts of this process under a name. Its parent cannot tell: what a child shared with it at first is
// counted there too.
uint64_t process_bytes(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != name) continue;
    uint64_t kibibytes = 0;
    status >> kibibytes;
    return kibibytes * 1024;
  }
  return 0;
}

// The measured process: a first token, and the times of the way there.
Result<void> report_start(const EngineFlags& flags, int64_t started_at_ns) {
  const auto since_start = [&] { return static_cast<double>(now_ns() - started_at_ns) * 1e-9; };
  const std::string path = TRY(find_model(flags.model));
  const std::unique_ptr<Model> model = TRY(open_model(flags));
  const double plan = since_start();
  // The kernel keeps the peak of all memory, not that of the anonymous part: seen while loading, and at the end.
  std::atomic<uint64_t> peak_anonymous{0};
  const auto look = [&] { peak_anonymous = std::max<uint64_t>(peak_anonymous, process_bytes("RssAnon:")); };
  model->plan().weights().on_progress([&](const LoadingStats&) { look(); });
  TRY(model->load(LoadMode::lazy));
  const tokenizer::Tokenizer& tokenizer = *TRY(model->tokenizer());
  const double tokenizer_ready = since_start();
  if (flags.load == LoadMode::eager) TRY(model->load(LoadMode::eager));
  Session session = TRY(open_session(*model, flags));
  const auto tokens = TRY(tokenizer.encode(kPrompt, {.parse_special = false, .add_bos = true}));
  TRY(TRY(session.advance(tokens))->choose(0, {.temperature = 0}, {}, 0));
  const double first_token = since_start();
  model->plan().weights().on_progress({});
  look();
  const uint64_t peak = process_bytes("VmHWM:");
  const double before_open = since_start();
  TRY(gguf::GgufFile::open(path));
  const double open = since_start() - before_open;
  JsonWriter w;
  w.begin_object().key("open").value(open).key("plan").value(plan).key("tokenizer").value(tokenizer_ready);
  w.key("first_token").value(first_token);
  w.key("peak_bytes").value(peak).key("peak_anonymous_bytes").value(peak_anonymous.load());
  w.key("pinned_bytes").value(model->backend().pinned_bytes()).key("backend").value(model->backend().name());
  w.key("read_bytes").value(model->plan().weights().loading_stats().read_bytes).end_object();
  return print(w.take());
}

}  // namespace

Result<void> bench_load(const BenchLoadCommand& options) {
  if (options.started_at_ns != 0) return report_start(options.engine, options.started_at_ns);
  const std::string model = TRY(find_model(options.engine.model));
  const double fill_rate = cpu::measure_fill_rate(options.engine.n_threads);
  TRY(start_process(options, model));  // fills the page cache
  const Start warm = TRY(best_start(options, model, false));
  const Start cold = TRY(best_start(options, model, true));
  drop_from_cache(model);
  const double disk_rate = TRY(direct_read_rate(model, options.engine.n_threads));
  if (options.json) {
    JsonWriter w;
    w.begin_object().key("model").value(std::string_view(model)).key("backend").value(std::string_view(warm.backend));
    w.key("memory_fill_gigabytes_per_second").value(fill_rate / 1e9);
    w.key("disk_direct_gigabytes_per_second").value(disk_rate / 1e9);
    write_json(w, "warm", warm, fill_rate);
    write_json(w, "cold", cold, disk_rate > 0 ? disk_rate : fill_rate);
    w.end_object();
    return print(w.take() + "\n");
  }
  using Align = Table::Align;
  std::vector<Align> columns(11, Align::right);
  columns[0] = Align::left;
  Table table(columns);
  table.add({"page cache", "plan", "tokenizer", "first token", "exit", "GB/s", "of limit", "peak memory", "anonymous",
             "pinned", "(open alone)"});
  const auto add = [&](const char* name, const Start& s, double limit) {
    const auto ms = [](double t) { return fmt::format("{:.1f} ms", t * 1e3); };
    const double rate = s.read_bytes / s.first_token;
    const auto bytes = [](double n) { return format_bytes(static_cast<uint64_t>(n)); };
    table.add({name, ms(s.plan), ms(s.tokenizer), ms(s.first_token), ms(s.exit), fmt::format("{:.2f}", rate / 1e9),
               limit > 0 ? fmt::format("{:.0f} %", 100 * rate / limit) : "", bytes(s.peak_bytes),
               bytes(s.peak_anonymous_bytes), bytes(s.pinned_bytes), ms(s.open)});
  };
  add("warm", warm, fill_rate);
  add("cold", cold, disk_rate);
  return print(
      fmt::format("{} on {}: {} of weights; memory fills at {:.1f} GB/s, the disk reads directly at {:.2f} GB/s\n"
                  "times since the process was started, best of {}\n{}",
                  model, warm.backend, format_bytes(static_cast<uint64_t>(warm.read_bytes)), fill_rate / 1e9,
                  disk_rate / 1e9, options.n_repetitions, table.text()));
}

}  // namespace rocmforge::apps
