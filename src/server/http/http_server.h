#pragma once
// An HTTP/1.1 server for many slow answers: one event loop, a coroutine per connection, and a few worker threads. Knows
// neither JSON nor models: requests go to a handler as Exchanges (exchange.h).
//
// Threads: the handler is called on the event loop and must not block; work that may block goes to post_work(). run()
// is the event loop. Any thread may call the other members.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "server/http/exchange.h"
#include "server/http/request_parser.h"
#include "server/http/tls.h"
#include "server/http/workers.h"

namespace rocmforge::server {

struct HttpOptions {
  std::string host = "127.0.0.1";              // an address; "localhost" is 127.0.0.1
  uint16_t port = 8080;                        // 0: any free one
  std::shared_ptr<const TlsContext> tls = {};  // nothing: HTTP as it is, else HTTPS
  HttpLimits limits = {};
  size_t max_connections = 1024;
  uint64_t max_bytes_of_bodies = 256u << 20;  // of all requests, from the first byte until the body is destroyed
  size_t max_unsent_bytes = Exchange::kMaxUnsentBytes;
  size_t n_workers = 4;           // may be more than cores: a long job must not delay short ones
  size_t max_queued_work = 1024;  // of new requests, before the workers
  using Milliseconds = std::chrono::milliseconds;
  Milliseconds first_byte = std::chrono::seconds(10);     // of a new connection
  Milliseconds head_deadline = std::chrono::seconds(10);  // from a request's first byte to its last header
  Milliseconds body_idle = std::chrono::seconds(30);
  Milliseconds body_deadline = std::chrono::minutes(5);
  Milliseconds keep_alive_idle = std::chrono::seconds(60);
  Milliseconds write_stall = std::chrono::seconds(30);  // without a byte accepted by the client
  Milliseconds ping_after = std::chrono::seconds(5);    // of a stream's silence
  Milliseconds sweep = std::chrono::milliseconds(250);  // interval between checks of deadlines
};

struct HttpStats {
  size_t n_connections = 0;
  uint64_t n_accepted = 0, n_refused = 0;  // refused: beyond max_connections
  uint64_t n_made_room = 0;                // idle, closed for a new one
  uint64_t n_dropped_bodies = 0;           // the slowest ones, when all bodies together were too large
  uint64_t body_bytes = 0;
  WorkerStats workers = {};
};

class HttpServer {
 public:
  using Handler = std::function<void(std::shared_ptr<Exchange>)>;
  // The answer to a malformed request; then the connection is closed.
  using ErrorAnswer = std::function<std::pair<ResponseHead, std::string>(const HttpError&)>;
  // Called with a request whose body has not arrived yet; returns the allowed length of the body. None: the handler
  // refuses the request without its body. Then the body is not awaited, and the connection is closed after the answer.
  using HeadJudge = std::function<std::optional<size_t>(const Request& head)>;

  // Listens; run() answers connections. invalid_argument: not an address. unsupported: the system refuses the address
  // (in use, not of this machine, not permitted). no_thread: the workers cannot be started.
  static Result<std::unique_ptr<HttpServer>> listen(const HttpOptions& options, Handler handler,
                                                    ErrorAnswer error_answer, HeadJudge judge_head = {});
  ~HttpServer();

  const std::string& address() const;  // "127.0.0.1:8080", "[::1]:8080"
  uint16_t port() const;
  bool is_loopback() const;
  HttpStats stats() const;

  // What new connections are shown from now on. REQUIRES: options.tls was given
  void set_tls(std::shared_ptr<const TlsContext> tls);

  // Returns after stop(). The handler may be called from now on.
  void run();
  // Accepts no more connections, gives those with an unfinished answer up to `grace` to send it, then ends run().
  void stop(std::chrono::milliseconds grace);

  // Runs `work` on a worker thread. try_post_work: false if the queue is full.
  void post_work(std::function<void()> work, WorkSize size = WorkSize::small);
  [[nodiscard]] bool try_post_work(std::function<void()> work, WorkSize size = WorkSize::small);
  // Runs `call` on the event loop.
  void post(std::function<void()> call);
  void post_after(std::chrono::milliseconds delay, std::function<void()> call);
  // `call` gets the number of SIGTERMs and SIGINTs so far, on the event loop. Before run().
  void on_signal(std::function<void(int)> call);
  // `call` is called for every SIGHUP, on the event loop. Before run().
  void on_hangup(std::function<void()> call);

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rocmforge::server
