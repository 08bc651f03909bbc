// Attacks against a real `rocmforge serve` with little memory: serving_attacks BINARY MODEL [NAME...]
//
//   keys      objects whose keys collide in an unseeded hash
//   bodies    90 clients that send 15 MB and leave
//   answers   60 clients that ask for large answers and read nothing
//   withheld  17 bodies whose last bytes never come, of clients with and without a key
//   idle      1,024 connections without a byte
//   recalled  a stored item of 15 MB that requests bring back 200 times; 120 requests of 15 MB that wait in the queue
//   constraints  45 answers under grammars whose masks take long, 45 under schemas that take long to compile
//   leaving   SIGTERM while bodies are withheld and answers are not read
//   threads   a second model is asked for while no thread, or only a few, can be started (needs a cgroup)
//
// The server runs in a memory cgroup of 2 GiB where one can be made, else under RLIMIT_AS. Each attack ends with the
// server alive, a small completion and /health answered within 2 s, and never more than 2 GiB resident.

#include <fmt/core.h>
#include <sys/resource.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>

#include "cgroup.h"
#include "client.h"
#include "server_process.h"
#include "support/colliding_keys.h"
#include "support/support.h"

namespace rocmforge::load {
namespace {

using namespace std::chrono_literals;
using server::testing::TestClient;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kMemoryBytes = uint64_t{2} << 30;
constexpr const char* kKey = "a-key-of-the-test";

int n_failures = 0;
void expect(bool good, const std::string& what) {
  if (good) return;
  n_failures++;
  fmt::print(stderr, "FAILED: {}\n", what);
}

// The server under attack. A limit of address space is inherited; it also counts what is never touched.
class Target {
 public:
  explicit Target(const Program& program, const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = {"--api-key", kKey};
    flags.insert(flags.end(), more.begin(), more.end());
    const bool has_group = group_.limit_memory(kMemoryBytes);
    server_.emplace(program, flags, [&] {
      if (has_group && group_.add(getpid())) return;
      const rlimit small{2 * kMemoryBytes, 2 * kMemoryBytes};
      setrlimit(RLIMIT_AS, &small);
    });
    static const bool is_told = [&] {
      fmt::print("the server runs {}\n", has_group ? "in a memory cgroup of 2 GiB" : "with 4 GiB of address space");
      return true;
    }();
    static_cast<void>(is_told);
  }
  uint16_t port() const { return server_->port(); }
  ServerProcess& server() { return *server_; }

  // The promise, after an attack and while it goes on.
  void expect_well(const std::string& when) {
    double slowest = 0;
    for (const bool is_post : {false, true}) {
      const auto begin = Clock::now();
      const auto [status, body] =
          ask(port(), is_post ? post("/v1/completions", R"({"prompt":"Once","max_tokens":4})") : get_request("/health"),
              10s);
      slowest = std::max(slowest, std::chrono::duration<double>(Clock::now() - begin).count());
      expect(status == 200, fmt::format("{}: {} answers {} {}", when, is_post ? "completion" : "health", status, body));
    }
    expect(slowest <= 2, fmt::format("{}: an answer took {:.1f} s", when, slowest));
    const double peak = double(server_->peak_kib()) / 1024;
    expect(peak * (1 << 20) < double(kMemoryBytes), fmt::format("{}: {:.0f} MiB were resident", when, peak));
    fmt::print("{}: answered after {:.2f} s at most, peak {:.0f} MiB\n", when, slowest, peak);
  }
  static std::string post(std::string_view path, std::string_view body, bool has_key = true,
                          std::optional<size_t> n_declared = {}) {
    return fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\n{}Connection: close\r\nContent-Length: {}\r\n\r\n{}",
                       path, has_key ? fmt::format("Authorization: Bearer {}\r\n", kKey) : "",
                       n_declared.value_or(body.size()), body);
  }

 private:
  Cgroup group_{"memory"};
  std::optional<ServerProcess> server_;
};

void attack_by_keys(const Program& program) {
  Target target(program);
  std::string body = R"({"prompt":"Once","max_tokens":2)";
  for (const std::string& key : testing::colliding_keys(20'000)) body += ",\"" + key + "\":1";
  body += "}";
  std::vector<TestClient> clients;
  for (int i = 0; i < 4; i++) {
    clients.emplace_back(target.port());
    clients.back().send(Target::post("/v1/completions", body));
  }
  target.expect_well("colliding keys");
}

void attack_by_bodies(const Program& program) {
  Target target(program);
  std::string numbers = "1";
  while (numbers.size() < 1'900'000) numbers += ",1";
  const std::string body = R"({"prompt":"Once","x":[)" + numbers + R"(],"y":")" + std::string(13'000'000, 'a') + "\"}";
  const std::string request = Target::post("/v1/completions", body);
  for (int i = 0; i < 90; i++) TestClient(target.port()).send(request);
  target.expect_well("abandoned bodies");
}

void attack_by_answers(const Program& program) {
  Target target(program);
  std::vector<TestClient> clients;
  const std::string body = R"({"with_pieces":true,"content":")" + std::string(2'000'000, '<') + "\"}";
  for (int i = 0; i < 60; i++) {
    clients.emplace_back(target.port(), 4096);
    clients.back().send(Target::post("/tokenize", body));
  }
  target.expect_well("unread answers");
}

void attack_by_withheld_bytes(const Program& program) {
  Target target(program);
  for (const bool has_key : {false, true}) {
    std::vector<TestClient> clients;
    const std::string most((16 << 20) - 400, 'a');
    for (int i = 0; i < 17; i++) {
      clients.emplace_back(target.port());
      clients.back().send(Target::post("/v1/completions", most, has_key, most.size() + 200));
    }
    std::this_thread::sleep_for(1500ms);  // until none of these bytes are recent
    for (int i = 0; i < 5; i++) target.expect_well(fmt::format("withheld bytes, {} key", has_key ? "with a" : "no"));
  }
}

void attack_by_idleness(const Program& program) {
  Target target(program);
  std::vector<TestClient> clients;
  for (int i = 0; i < 1024; i++) clients.emplace_back(target.port());
  for (int i = 0; i < 5; i++) target.expect_well("idle connections");
}

// An item of a conversation may hold more than the model reads of it, and the server keeps all of it.
void attack_by_recalling(const Program& program) {
  Target target(program, {"--parallel", "1"});
  const std::string item =
      R"({"id":"msg_large","role":"user","content":"Once","x":")" + std::string(15'000'000, 'a') + "\"}";
  const auto body = [](const std::string& items, int n_tokens) {
    return fmt::format(R"({{"input":[{}],"max_output_tokens":{},"ignore_eos":true}})", items, n_tokens);
  };
  const auto [status, answer] = ask(target.port(), Target::post("/v1/responses", body(item, 1)), 10s);
  expect(status == 200, fmt::format("an item is stored: {} {}", status, answer.substr(0, 200)));
  std::string references = R"({"id":"msg_large"})";
  for (int i = 1; i < 200; i++) references += R"(,{"id":"msg_large"})";
  std::vector<TestClient> clients;
  for (int i = 0; i < 8; i++) {
    clients.emplace_back(target.port());
    clients.back().send(Target::post("/v1/responses", body(references, 1)));
  }
  target.expect_well("recalled items");
  for (int i = 0; i < 120; i++) {
    clients.emplace_back(target.port());
    clients.back().send(Target::post("/v1/responses", body(item, 500)));
  }
  clients.clear();
  target.expect_well("large requests in the queue");
}

// Expressions whose intersections have thousands of states: compiling takes about half a second, so that most of 45
// still wait for a worker while the attack goes on, and not all of the engine's 64 places are taken.
std::string slow_schema(int seed) {
  std::string out = R"({"type":"object","properties":{)";
  for (int i = 0; i < 100; i++) {
    const auto letter = [&](int n) { return static_cast<char>('a' + n % 26); };
    out += fmt::format(R"({}"k{}_{}":{{"allOf":[{{"type":"string","pattern":"[a-z]*{}[a-z]{{5}}"}},)"
                       R"({{"type":"string","pattern":"[a-z]*{}[a-z]{{6}}"}}]}})",
                       i == 0 ? "" : ",", seed, i, letter(seed + i), letter(seed + i * 7 + 1));
  }
  return out + "}}";
}

// Grammars that are ambiguous at every byte: what may follow takes long to find, for every token anew.
std::string slow_grammar(int seed) {
  switch (seed % 3) {
    case 0:
      return fmt::format(R"(root ::= e{{{}}}\ne ::= s e? | [a-z] e [a-z] | \"\"\ns ::= [a-z ,.]+)", seed + 1);
    case 1:
      return fmt::format(R"(root ::= w{{1,{}}}\nw ::= [a-z ,.]{{1,300}})", 900 + seed);
    default:
      return fmt::format(R"(root ::= w{{1,{}}} \"{}\"\nw ::= [a-z ,.]{{1,300}})", 900 + seed, std::string(300, 'a'));
  }
}

void attack_by_constraints(const Program& program) {
  Target target(program);
  std::vector<TestClient> clients;
  for (int i = 0; i < 90; i++) {
    const std::string constraint = i >= 45 ? fmt::format(R"("json_schema":{})", slow_schema(i))
                                           : fmt::format(R"("grammar":"{}")", slow_grammar(i));
    clients.emplace_back(target.port());
    clients.back().send(Target::post(
        "/v1/completions", fmt::format(R"({{"prompt":"Once","max_tokens":900,"temperature":0,{}}})", constraint)));
  }
  const auto expect_attack = [&] {
    const std::string metrics = ask(target.port(),
                                    "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " +
                                        std::string(kKey) + "\r\nConnection: close\r\n\r\n",
                                    10s)
                                    .second;
    for (const char* name : {"rocmforge_workers_queued", "rocmforge_requests_running"}) {
      const size_t at = metrics.find(std::string("\n") + name);
      const size_t blank = at == std::string::npos ? at : metrics.find(' ', at);
      const int n = blank == std::string::npos ? 0 : std::atoi(metrics.c_str() + blank);
      expect(n > 0, fmt::format("constraints: the attack goes on: {} is {}", name, n));
    }
  };
  for (int i = 0; i < 40; i++) {
    target.expect_well("constraints");
    if (i == 4) expect_attack();  // later the memory that grammars may take is used up, and the rest is refused
    std::this_thread::sleep_for(50ms);
  }
}

// The process ends within the drain time, even if clients keep their connections open.
void attack_by_holding_on(const Program& program) {
  Target target(program, {"--drain-seconds", "3"});
  std::vector<TestClient> clients;
  const std::string most(1 << 20, 'a');
  const std::string unread = R"({"with_pieces":true,"content":")" + std::string(2'000'000, '<') + "\"}";
  const std::string endless = R"({"prompt":"Once","max_tokens":100000,"ignore_eos":true,"stream":true})";
  for (int i = 0; i < 20; i++) {
    clients.emplace_back(target.port(), 4096);
    clients.back().send(i % 3 == 0   ? Target::post("/v1/completions", most, true, most.size() + 200)
                        : i % 3 == 1 ? Target::post("/tokenize", unread)
                                     : Target::post("/v1/completions", endless));
  }
  std::this_thread::sleep_for(500ms);
  const auto begin = Clock::now();
  target.server().signal(SIGTERM);
  const int code = target.server().wait(10s);
  const double took = std::chrono::duration<double>(Clock::now() - begin).count();
  expect(code == 0, fmt::format("SIGTERM under attack: the server ended with {} after {:.1f} s", code, took));
  expect(took < 4, fmt::format("SIGTERM under attack: it took {:.1f} s with a drain time of 3 s", took));
  fmt::print("SIGTERM under attack: ended after {:.2f} s\n", took);
}

void attack_by_threads(const Program& program) {
  const testing::TempDir folder;
  std::filesystem::copy_file(program.model, folder.file("second.gguf"));
  for (uint64_t n_more = 0; n_more <= 12; n_more++) {
    Target target(program, {folder.file("second.gguf")});
    Cgroup group("pids");
    if (!group.limit_threads(target.server().n_threads() + n_more) || !group.add(target.server().pid())) {
      fmt::print("threads: left out, no cgroup can be made\n");
      return;
    }
    const auto [status, body] = ask(
        target.port(), Target::post("/v1/completions", R"({"model":"second","prompt":"Once","max_tokens":4})"), 10s);
    expect(status == 200 || status == 500 || status == 503,
           fmt::format("{} more threads: the second model answers {} {}", n_more, status, body));
    target.expect_well(fmt::format("{} more threads, second model {}", n_more, status));
  }
}

}  // namespace
}  // namespace rocmforge::load

int main(int argc, char** argv) {
  using namespace rocmforge::load;
  if (argc < 3) {
    fmt::print(stderr,
               "usage: serving_attacks BINARY MODEL "
               "[keys|bodies|answers|withheld|idle|recalled|constraints|leaving|threads ...]\n");
    return 2;
  }
  const std::map<std::string, void (*)(const Program&)> attacks = {{"keys", attack_by_keys},
                                                                   {"bodies", attack_by_bodies},
                                                                   {"answers", attack_by_answers},
                                                                   {"withheld", attack_by_withheld_bytes},
                                                                   {"idle", attack_by_idleness},
                                                                   {"leaving", attack_by_holding_on},
                                                                   {"recalled", attack_by_recalling},
                                                                   {"threads", attack_by_threads},
                                                                   {"constraints", attack_by_constraints}};
  signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string> chosen(argv + 3, argv + argc);
  for (const auto& [name, attack] : attacks) {
    if (!chosen.empty() && std::find(chosen.begin(), chosen.end(), name) == chosen.end()) continue;
    attack({argv[1], argv[2]});
  }
  return n_failures == 0 ? 0 : 1;
}
