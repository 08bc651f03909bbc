#pragma once
// One client's connection: reads requests one after the other and writes the bytes of their answers.
// For http_server.cpp and connection.cpp, beside byte_stream.h the only files that use Asio.
//
// Threads: the event loop's. Other threads reach a connection by posting to the loop.
//
// Deadlines are not timers: each connection stores its deadline, and the server's sweep checks all deadlines every
// quarter of a second.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/http/byte_stream.h"
#include "server/http/http_server.h"

namespace rocmforge::server {

class Connection;

// Shared by all connections.
struct ConnectionContext {
  const HttpOptions& options;
  const HttpServer::Handler& handle;
  const HttpServer::ErrorAnswer& error_answer;
  const HttpServer::HeadJudge& judge_head;
  std::shared_ptr<ByteBudget> bodies;
  // Drops the slowest body of at least so many bytes. False: there is none, or it belongs to the asking connection.
  std::function<bool(const Connection& asking, uint64_t n_bytes)> drop_slowest_body;
  bool is_stopping = false;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = ByteStream::Socket;
  using Time = std::chrono::steady_clock::time_point;

  // With a context: under TLS.
  Connection(Socket socket, const std::shared_ptr<const TlsContext>& tls, ConnectionContext& context);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Until either side closes.
  boost::asio::awaitable<void> serve();
  // Sends the answer of a connection beyond the limit.
  boost::asio::awaitable<void> refuse();

  // Closes the connection if a deadline has passed; makes a silent stream send its ping.
  void sweep(Time now);
  // Closes the connection: at once if it waits for a request, otherwise after its answer was sent.
  void close_when_idle();
  void close();
  bool is_closed() const { return is_closed_; }

  // The time since which the connection has waited for the first byte of a request, or for the rest of a head for more
  // than a moment: such a connection may be closed to make room for another. None: the connection is busy.
  std::optional<Time> waits_for_request_since(Time now);
  // How fast a body arrives; none when no body is arriving.
  struct BodyProgress {
    uint64_t n_held_bytes;
    uint64_t n_recent_bytes;  // of the last second or so
    Time begin;
  };
  std::optional<BodyProgress> body_progress() const;
  // Frees the body that is arriving and answers with an error.
  void drop_body();

 private:
  enum class Phase : uint8_t { idle, head, body, answer, write };
  struct Incoming {
    Request request;
    ByteHold hold;                    // of its body
    bool is_refused_on_head = false;  // the body is not read
  };

  boost::asio::awaitable<bool> shake_hands();  // false: there is nobody to talk to
  boost::asio::awaitable<bool> read_request(Incoming& out);
  std::optional<HttpError> take_bytes(std::string_view bytes);
  bool hold_body();
  bool judge();  // false: the request is refused without its body
  boost::asio::awaitable<bool> answer(std::shared_ptr<Exchange> exchange, bool keep);
  boost::asio::awaitable<bool> send(std::string bytes);
  boost::asio::awaitable<void> send_error(HttpError error);
  boost::asio::awaitable<void> linger();
  // Cancels the exchange if the client closes the connection before the answer is complete.
  void watch(std::shared_ptr<Exchange> exchange);
  bool client_is_gone();
  void enter(Phase phase, std::chrono::milliseconds patience);

  ByteStream stream_;
  Socket& socket_;  // the stream's
  ConnectionContext& context_;
  RequestParser parser_;
  std::string unread_;  // bytes of the next request that came with the last
  Phase phase_ = Phase::idle;
  Time phase_began_;
  Time deadline_ = Time::max();
  Time body_deadline_ = Time::max();
  ByteHold body_hold_;                                     // of the body in the parser
  uint64_t n_window_bytes_ = 0, n_last_window_bytes_ = 0;  // arrived in the current half second and the one before
  Time window_end_ = Time::min();
  bool is_new_ = true;  // no request has come yet
  bool timed_out_ = false, is_dropped_ = false, is_judged_ = false, is_closed_ = false;

  std::shared_ptr<Exchange> exchange_;  // while its answer is being made
  boost::asio::steady_timer output_;    // cancelled when there is output
  Time ping_at_ = Time::max();
  bool is_pipelined_ = false;  // more bytes lie behind this request: watch() cannot wait for them
};

}  // namespace rocmforge::server
