#pragma once
// One client's connection: requests in, one after the other, and the bytes of their answers out.
// For http_server.cpp and connection.cpp, the only files that know Asio.
//
// Threads: the event loop's, all of it. Other threads reach a connection by posting to the loop.
//
// Deadlines are not timers: each connection notes when its patience ends, and the server's sweep looks at all of them
// every quarter of a second.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "server/http/http_server.h"

namespace rocmforge::server {

// What connections share.
struct ConnectionContext {
  const HttpOptions& options;
  const HttpServer::Handler& handle;
  const HttpServer::ErrorAnswer& error_answer;
  size_t n_pending_body_bytes = 0;
  bool is_stopping = false;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using Time = std::chrono::steady_clock::time_point;

  Connection(Socket socket, ConnectionContext& context);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Until either side closes.
  boost::asio::awaitable<void> serve();
  // Sends what a connection too many gets.
  boost::asio::awaitable<void> refuse();

  // Ends it if a deadline has passed; reminds a silent stream to ping.
  void sweep(Time now);
  // Ends it if it waits for a request; otherwise once its answer is sent.
  void close_when_idle();
  void close();

 private:
  enum class Phase : uint8_t { idle, head, body, answer, write };

  boost::asio::awaitable<bool> read_request(Request& out);
  bool take_bytes(std::string_view bytes);
  boost::asio::awaitable<bool> answer(std::shared_ptr<Exchange> exchange, bool keep);
  boost::asio::awaitable<bool> send(std::string bytes);
  boost::asio::awaitable<void> send_error(HttpError error);
  // Notices a client that goes away while its answer is being made.
  void watch(std::shared_ptr<Exchange> exchange);
  bool client_is_gone();
  void note_body_bytes(size_t n_now);
  void enter(Phase phase, std::chrono::milliseconds patience);

  Socket socket_;
  ConnectionContext& context_;
  RequestParser parser_;
  std::string unread_;  // bytes of the next request that came with the last
  Phase phase_ = Phase::idle;
  Time deadline_ = Time::max();
  Time body_deadline_ = Time::max();
  size_t n_body_bytes_ = 0;  // counted in the context until there is an answer
  bool timed_out_ = false, is_closed_ = false;

  std::shared_ptr<Exchange> exchange_;  // while its answer is being made
  boost::asio::steady_timer output_;    // cancelled when there is output
  Time ping_at_ = Time::max();
  bool is_pipelined_ = false;  // more bytes lie behind this request: watch() cannot wait for them
};

}  // namespace rocmforge::server
