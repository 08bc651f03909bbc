// How long the device idles between two steps of a busy server: the time from the results of one being there until the
// next is handed over. The device is played: each step takes as long as it is told, on no core, and every row's logits
// are alike. Everything else is the server as it is, with clients that read over sockets.
//
//   serving_bench [STREAMS [STEP_MS [TOKENS [SAMPLING]]]]     64 3.5 256 '"temperature":0.8'

#include <fmt/core.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <thread>

#include "base/check.h"
#include "cpu/backend.h"
#include "server/http/test_client.h"
#include "server/server.h"

namespace rocmforge {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

struct Timeline {
  Seconds step;
  std::vector<double> gaps_us = {};  // of steps with all rows
  uint32_t n_full = 0;               // rows of such a step
};

class PacedBackend final : public Backend {
 public:
  explicit PacedBackend(Timeline& timeline) : timeline_(timeline) {}
  std::string_view name() const override { return "paced"; }
  bool runs_ahead() const override { return true; }
  Placement& placement() override { return cpu_.placement(); }
  uint64_t pass_bytes(const PassMemory& memory) const override { return cpu_.pass_bytes(memory); }
  Result<void> reserve(const PassMemory& memory) override { return cpu_.reserve(memory); }
  void release() override { cpu_.release(); }
  Result<void> run(std::span<const Step>, const Batch&, const WeightStore&) override { return {}; }
  Result<void> run_settled(std::span<const std::span<const Step>>, const Batch& batch, const WeightStore&) override {
    const auto now = Clock::now();
    const bool is_full = batch.n_rows() == timeline_.n_full;
    if (is_full && was_full_) timeline_.gaps_us.push_back(Seconds(now - idle_since_).count() * 1e6);
    was_full_ = is_full;
    done_at_ = now + std::chrono::duration_cast<Clock::duration>(timeline_.step);
    return {};
  }
  Result<void> read(std::span<float> out, SlotId) override {
    std::ranges::fill(out, 0.0f);
    return {};
  }
  Result<std::span<const RowCandidates>> read_allowed_candidates(std::span<const AllowedTokens>, SlotId) override {
    return Error{ErrorCode::unsupported, "no request of this bench has a constraint"};
  }
  Result<std::span<const RowCandidates>> read_candidates(uint32_t n, SlotId) override {
    candidates_.resize(n);
    for (RowCandidates& row : candidates_) {
      for (uint32_t i = 0; i < kCandidates; i++) row.top[i] = {300 + i, -0.1f * static_cast<float>(i)};
      row.log_sum_exp = 2.35f;
    }
    std::this_thread::sleep_until(done_at_);
    idle_since_ = Clock::now();
    return std::span<const RowCandidates>(candidates_);
  }

 private:
  Timeline& timeline_;
  CpuBackend cpu_{{.n_threads = 1}};
  std::vector<RowCandidates> candidates_;
  bool was_full_ = false;
  Clock::time_point done_at_{}, idle_since_{};
};

size_t n_tokens_of_stream(uint16_t port, const std::string& body) {
  server::testing::TestClient client(port);
  client.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  constexpr std::string_view kToken = "\"text\":";
  size_t n = 0;
  std::string left;
  for (std::string some = client.read_some(); !some.empty(); some = client.read_some()) {
    left += some;
    size_t at = 0;
    for (size_t found; (found = left.find(kToken, at)) != std::string::npos; at = found + kToken.size()) n++;
    left.erase(0, std::max(at, left.size() - std::min(left.size(), kToken.size() - 1)));
  }
  return n;
}

double at_share(std::vector<double>& sorted, double share) {
  return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

void measure(uint32_t n_streams, double step_ms, uint32_t n_tokens, const std::string& sampling) {
  Timeline timeline{.step = std::chrono::duration<double, std::milli>(step_ms), .n_full = n_streams};
  ModelRegistry::Options models;
  models.models = {{.name = "story", .path = RF_SOURCE_DIR "/models/story-q4_k_m.gguf"}};
  models.model.device = "gpu";
  models.model.n_threads = 1;
  models.model.open_gpu = [&]() -> Result<std::unique_ptr<Backend>> {
    return std::unique_ptr<Backend>(std::make_unique<PacedBackend>(timeline));
  };
  models.engine.n_kv_tokens = n_streams * 1024;
  models.engine.max_running = n_streams;
  auto registry = ModelRegistry::create(std::move(models)).value();
  server::ServerOptions options;
  options.http.port = 0;
  auto server = server::Server::create(*registry, options).value();
  std::thread loop([&] {
    prctl(PR_SET_TIMERSLACK, 1UL);
    server->run();
  });

  const std::string body =
      fmt::format(R"({{"prompt":"Once","max_tokens":{},"ignore_eos":true,"stream":true,{}}})", n_tokens, sampling);
  n_tokens_of_stream(server->port(), body);  // weights
  std::atomic<size_t> n_received = 0;
  const auto begin = Clock::now();
  std::vector<std::thread> clients;
  for (uint32_t i = 0; i < n_streams; i++) {
    clients.emplace_back([&] { n_received += n_tokens_of_stream(server->port(), body); });
  }
  for (std::thread& client : clients) client.join();
  const double seconds = Seconds(Clock::now() - begin).count();
  server->begin_drain();
  loop.join();
  std::ranges::sort(timeline.gaps_us);
  CHECK(!timeline.gaps_us.empty());
  fmt::print(
      "{} streams, steps of {} ms: idle between steps median {:.0f} us, best tenth {:.0f}, worst tenth {:.0f}; "
      "{:.0f} tok/s of {:.0f}\n",
      n_streams, step_ms, at_share(timeline.gaps_us, 0.5), at_share(timeline.gaps_us, 0.1),
      at_share(timeline.gaps_us, 0.9), static_cast<double>(n_received) / seconds, n_streams / step_ms * 1e3);
}

}  // namespace
}  // namespace rocmforge

int main(int argc, char** argv) {
  const auto argument = [&](int i, const char* otherwise) { return std::string(argc > i ? argv[i] : otherwise); };
  prctl(PR_SET_TIMERSLACK, 1UL);
  rocmforge::measure(static_cast<uint32_t>(std::stoul(argument(1, "64"))), std::stod(argument(2, "3.5")),
                     static_cast<uint32_t>(std::stoul(argument(3, "256"))), argument(4, "\"temperature\":0.8"));
  return 0;
}
