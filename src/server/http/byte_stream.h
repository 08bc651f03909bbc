#pragma once
// The bytes of a connection, as they are or under TLS.
// For http_server.cpp and connection.cpp, as connection.h is.
//
// Threads: the event loop's. One read and one write at a time.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <utility>

#include "server/http/tls.h"

namespace rocmforge::server {

class ByteStream {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using Transfer = std::pair<boost::system::error_code, size_t>;

  // Without a context: the bytes as they are.
  ByteStream(Socket socket, const std::shared_ptr<const TlsContext>& tls);
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  Socket& socket() { return socket_; }
  const Socket& socket() const { return socket_; }
  bool is_encrypted() const { return tls_ != nullptr; }

  enum class Greeting : uint8_t { done, failed, plain_http };
  // Before anything else where is_encrypted(). After plain_http the bytes go as they are: the client can be told.
  boost::asio::awaitable<Greeting> shake_hands();
  boost::asio::awaitable<Transfer> read_some(boost::asio::mutable_buffer to);
  boost::asio::awaitable<Transfer> write_some(boost::asio::const_buffer from);
  // Says that no bytes follow; what arrives then are no longer messages.
  boost::asio::awaitable<void> say_goodbye();

 private:
  struct Tls;
  Socket socket_;
  std::unique_ptr<Tls> tls_;
};

}  // namespace rocmforge::server
