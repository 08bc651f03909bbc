#include "server/http/byte_stream.h"

#include <openssl/err.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <new>

namespace rocmforge::server {

namespace asio = boost::asio;
using asio::awaitable;

namespace {

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

SSL* new_session(const TlsContext& context) {
  SSL* session = SSL_new(context.native());
  if (!session) throw std::bad_alloc();
  return session;
}

}  // namespace

struct ByteStream::Tls {
  Tls(Socket& socket, const TlsContext& context) : stream(socket, new_session(context)) {}
  asio::ssl::stream<Socket&> stream;
};

ByteStream::ByteStream(Socket socket, const std::shared_ptr<const TlsContext>& tls) : socket_(std::move(socket)) {
  if (tls) tls_ = std::make_unique<Tls>(socket_, *tls);
}
ByteStream::~ByteStream() = default;

awaitable<ByteStream::Greeting> ByteStream::shake_hands() {
  const auto [error] = co_await tls_->stream.async_handshake(asio::ssl::stream_base::server, kTuple);
  if (!error) co_return Greeting::done;
  const bool is_http = error.category() == asio::error::get_ssl_category() &&
                       ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_HTTP_REQUEST;
  if (!is_http) co_return Greeting::failed;
  tls_.reset();
  co_return Greeting::plain_http;
}

awaitable<ByteStream::Transfer> ByteStream::read_some(asio::mutable_buffer to) {
  if (tls_) {
    const auto [error, n] = co_await tls_->stream.async_read_some(to, kTuple);
    co_return Transfer{error, n};
  }
  const auto [error, n] = co_await socket_.async_read_some(asio::mutable_buffers_1(to), kTuple);
  co_return Transfer{error, n};
}

awaitable<ByteStream::Transfer> ByteStream::write_some(asio::const_buffer from) {
  if (tls_) {
    const auto [error, n] = co_await tls_->stream.async_write_some(asio::const_buffers_1(from), kTuple);
    co_return Transfer{error, n};
  }
  const auto [error, n] = co_await socket_.async_write_some(asio::const_buffers_1(from), kTuple);
  co_return Transfer{error, n};
}

awaitable<void> ByteStream::say_goodbye() {
  if (tls_) {
    co_await tls_->stream.async_shutdown(kTuple);
    tls_.reset();
  }
  boost::system::error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
}

}  // namespace rocmforge::server
