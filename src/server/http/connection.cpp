#include "server/http/connection.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <ctime>
#include <new>

#include "base/check.h"
#include "base/log.h"
#include "server/http/response.h"

namespace rocmforge::server {

namespace asio = boost::asio;
using asio::awaitable;
using std::chrono::steady_clock;

namespace {

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr size_t kReadBytes = 16u << 10;
constexpr int kSocketSendBytes = 128 << 10;  // what the system holds for a client that does not read
constexpr size_t kJoinBytes = 16u << 10;  // a head and its body go out together up to here; beyond, nothing is copied
constexpr auto kWindow = std::chrono::milliseconds(500);  // in which the bytes of a body are counted
constexpr auto kMoment = std::chrono::seconds(1);         // in which the head of an honest request arrives

}  // namespace

Connection::Connection(Socket socket, const std::shared_ptr<const TlsContext>& tls, ConnectionContext& context)
    : stream_(std::move(socket), tls),
      socket_(stream_.socket()),
      context_(context),
      parser_(context.options.limits),
      phase_began_(steady_clock::now()),
      body_hold_(context.bodies),
      output_(socket_.get_executor()) {
  boost::system::error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::send_buffer_size(kSocketSendBytes), ignored);
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
}

Connection::~Connection() {
  if (!exchange_) return;
  exchange_->on_output(nullptr);
  exchange_->cancel();
}

void Connection::enter(Phase phase, std::chrono::milliseconds patience) {
  const Time now = steady_clock::now();
  if (phase_ != phase) phase_began_ = now;
  phase_ = phase;
  deadline_ = now + patience;
}

void Connection::close() {
  if (std::exchange(is_closed_, true)) return;
  boost::system::error_code ignored;
  socket_.close(ignored);
  if (exchange_) exchange_->cancel();
  output_.cancel();
}

void Connection::close_when_idle() {
  if (phase_ == Phase::idle) close();
}

void Connection::sweep(Time now) {
  if (is_closed_) return;
  if (now >= window_end_) {
    n_last_window_bytes_ = std::exchange(n_window_bytes_, 0);
    window_end_ = now + kWindow;
  }
  if (phase_ == Phase::answer) {
    if (is_pipelined_ && client_is_gone()) close();
    if (now >= ping_at_ || exchange_->has_output()) output_.cancel();
    return;
  }
  if (now < deadline_ && !(phase_ == Phase::body && now >= body_deadline_)) return;
  if (phase_ == Phase::head || phase_ == Phase::body) {
    timed_out_ = true;  // the reader says so to the client
    boost::system::error_code ignored;
    socket_.cancel(ignored);
    deadline_ = now + context_.options.head_deadline;
    body_deadline_ = Time::max();
  } else {
    close();
  }
}

std::optional<Connection::Time> Connection::waits_for_request_since(Time now) {
  if (is_closed_) return {};
  if (phase_ == Phase::head && now - phase_began_ >= kMoment) return phase_began_;
  if (phase_ != Phase::idle) return {};
  char byte;
  const bool has_input = recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
  return has_input ? std::nullopt : std::optional(phase_began_);
}

std::optional<Connection::BodyProgress> Connection::body_progress() const {
  if (is_closed_ || is_dropped_ || phase_ != Phase::body) return {};
  return BodyProgress{body_hold_.bytes(), n_last_window_bytes_ + n_window_bytes_, phase_began_};
}

void Connection::drop_body() {
  is_dropped_ = true;
  parser_ = RequestParser(context_.options.limits);
  body_hold_ = ByteHold(context_.bodies);
  boost::system::error_code ignored;
  socket_.cancel(ignored);  // the reader says so to the client
}

awaitable<bool> Connection::send(std::string bytes) {
  enter(Phase::write, context_.options.write_stall);
  for (size_t n_sent = 0; n_sent < bytes.size();) {
    const auto buffer = asio::buffer(bytes.data() + n_sent, bytes.size() - n_sent);
    const auto [error, n] = co_await stream_.write_some(buffer);
    if (error) co_return false;
    n_sent += n;
    deadline_ = steady_clock::now() + context_.options.write_stall;
  }
  co_return true;
}

// Closing with bytes unread would reset the connection, and the client might never see the answer.
awaitable<void> Connection::linger() {
  enter(Phase::write, std::chrono::seconds(1));
  co_await stream_.say_goodbye();
  std::string rest(kReadBytes, '\0');
  for (size_t n_read = 0; n_read < (1u << 20);) {
    const auto buffer = asio::buffer(rest);
    const auto [failed, n] = co_await stream_.read_some(buffer);
    if (failed) break;
    n_read += n;
  }
}

awaitable<void> Connection::send_error(HttpError error) {
  body_hold_ = ByteHold(context_.bodies);
  parser_ = RequestParser(context_.options.limits);
  auto [head, body] = context_.error_answer(error);
  std::string bytes = response_head(head, {.body_bytes = body.size(), .close = true}) + body;
  if (co_await send(std::move(bytes))) co_await linger();
}

awaitable<bool> Connection::shake_hands() {
  if (!stream_.is_encrypted()) co_return true;
  enter(Phase::head, context_.options.first_byte);
  const auto greeting = co_await stream_.shake_hands();
  if (greeting == ByteStream::Greeting::plain_http && !is_closed_) {
    co_await send_error({400, "this port speaks HTTPS: the address begins with https://"});
  }
  co_return greeting == ByteStream::Greeting::done && !timed_out_;
}

awaitable<bool> Connection::read_request(Incoming& out) {
  const HttpOptions& options = context_.options;
  enter(Phase::idle, is_new_ ? options.first_byte : options.keep_alive_idle);
  std::string chunk(kReadBytes, '\0');
  bool said_continue = false;
  is_judged_ = false;
  std::optional<HttpError> trouble = take_bytes({});  // what came with the last request
  for (;;) {
    if (!trouble && parser_.state() == RequestParser::State::failed) trouble = parser_.error();
    if (trouble) {
      const HttpError said = *trouble;
      co_await send_error(said);
      co_return false;
    }
    switch (parser_.state()) {
      case RequestParser::State::failed:
        continue;
      case RequestParser::State::done:
        is_new_ = false;
        out.request = parser_.take();
        out.hold = std::exchange(body_hold_, ByteHold(context_.bodies));
        co_return true;
      case RequestParser::State::head:
        if (parser_.has_begun() && phase_ == Phase::idle) enter(Phase::head, options.head_deadline);
        break;
      case RequestParser::State::body:
        if (!judge()) {
          out.request = parser_.take_head();
          out.is_refused_on_head = true;
          body_hold_ = ByteHold(context_.bodies);
          co_return true;
        }
        if (parser_.state() == RequestParser::State::failed) continue;
        if (phase_ != Phase::body) body_deadline_ = steady_clock::now() + options.body_deadline;
        if (parser_.expects_continue() && !std::exchange(said_continue, true)) {
          if (!co_await send("HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
        }
        enter(Phase::body, options.body_idle);
        break;
    }
    if (context_.is_stopping && phase_ == Phase::idle) co_return false;
    const auto buffer = asio::buffer(chunk);
    const auto [error, n] = co_await stream_.read_some(buffer);
    if (is_dropped_ && !is_closed_) {
      co_await send_error({503, "too many large requests at once, and this one arrived most slowly"});
      co_return false;
    }
    if (error) {
      if (timed_out_ && !is_closed_) co_await send_error({408, "the request took too long to arrive"});
      co_return false;
    }
    trouble = take_bytes({chunk.data(), n});
  }
}

// Who may ask, and for what, is all in the head: nothing is awaited of a request that will be refused.
bool Connection::judge() {
  if (std::exchange(is_judged_, true) || !context_.judge_head) return true;
  const std::optional<size_t> max_bytes = context_.judge_head(parser_.head());
  if (!max_bytes) return false;
  parser_.limit_body(*max_bytes);
  return true;
}

// An error: there is no memory for the bytes, or no room among all bodies, and the request is forgotten.
std::optional<HttpError> Connection::take_bytes(std::string_view bytes) {
  try {
    unread_.append(bytes);
    n_window_bytes_ += bytes.size();
    const size_t n_taken = parser_.feed(unread_);
    unread_.erase(0, n_taken);
    if (!hold_body()) return HttpError{503, "too many large requests at once"};
    return {};
  } catch (const std::bad_alloc&) {
    unread_ = {};
    parser_ = RequestParser(context_.options.limits);
    return HttpError{503, "there is not enough memory for it"};
  }
}

bool Connection::hold_body() {
  const uint64_t n = parser_.body_bytes();
  while (!body_hold_.resize(n)) {
    if (!context_.drop_slowest_body(*this, n - body_hold_.bytes())) return false;
  }
  return true;
}

// Whether the other side has sent its FIN, with bytes before it unread or not.
bool Connection::client_is_gone() {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return true;
  return info.tcpi_state != TCP_ESTABLISHED;
}

void Connection::watch(std::shared_ptr<Exchange> exchange) {
  is_pipelined_ = !unread_.empty();
  if (is_pipelined_) return;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this(), exchange](const boost::system::error_code& error) {
    if (error || self->exchange_ != exchange) return;
    char byte;
    const ssize_t n = recv(self->socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n > 0) {
      self->is_pipelined_ = true;
    } else {
      self->close();
    }
  });
}

awaitable<bool> Connection::answer(std::shared_ptr<Exchange> exchange, bool keep) {
  const bool is_head = exchange->request().method == "HEAD", is_old = exchange->request().is_http_1_0;
  exchange->on_output([weak = weak_from_this(), executor = socket_.get_executor()] {
    asio::dispatch(executor, [weak] {
      if (const auto self = weak.lock()) self->output_.cancel();
    });
  });
  watch(exchange);
  context_.handle(exchange);
  std::string ping;
  bool is_chunked = false;
  for (;;) {
    Exchange::Output out = exchange->take();
    if (out.cancelled || is_closed_) co_return false;
    std::string bytes;
    if (out.head) {
      const bool is_stream = out.is_stream;
      if (is_stream && is_old) keep = false;
      if (context_.is_stopping) keep = false;
      is_chunked = is_stream && !is_old && !is_head;
      ping = is_head ? "" : out.head->ping;
      bytes = response_head(*out.head, {.body_bytes = is_stream ? std::nullopt : std::optional(out.bytes.size()),
                                        .chunked = is_chunked,
                                        .close = !keep});
    }
    if (is_head) out.bytes.clear();
    if (is_chunked) {
      append_chunk(bytes, out.bytes);
      if (out.finished) bytes += kLastChunk;
    } else if (bytes.empty()) {
      bytes = std::move(out.bytes);
    } else if (out.bytes.size() <= kJoinBytes) {
      bytes += out.bytes;
    } else {
      if (!co_await send(std::move(bytes))) co_return false;
      bytes = std::move(out.bytes);
    }
    if (!bytes.empty()) {
      if (!co_await send(std::move(bytes))) co_return false;
      if (out.finished) co_return keep;
      continue;  // more may have come meanwhile
    }
    if (out.finished) co_return keep;
    phase_ = Phase::answer;
    deadline_ = Time::max();
    ping_at_ = ping.empty() ? Time::max() : steady_clock::now() + context_.options.ping_after;
    output_.expires_at(Time::max());
    co_await output_.async_wait(kTuple);
    if (!ping.empty() && steady_clock::now() >= ping_at_ && !is_closed_) {
      std::string reminder;
      if (is_chunked) {
        append_chunk(reminder, ping);
      } else {
        reminder = ping;
      }
      if (!co_await send(std::move(reminder))) co_return false;
    }
  }
}

awaitable<void> Connection::serve() {
  const auto self = shared_from_this();
  for (bool keep = co_await shake_hands(); keep;) {
    Incoming in;
    if (!co_await read_request(in)) break;
    keep = wants_to_stay(in.request) && !in.is_refused_on_head;
    exchange_ =
        std::make_shared<Exchange>(std::move(in.request), context_.options.max_unsent_bytes, std::move(in.hold));
    keep = co_await answer(exchange_, keep);
    const auto exchange = std::exchange(exchange_, nullptr);
    exchange->on_output(nullptr);
    if (!keep) exchange->cancel();
    boost::system::error_code ignored;
    socket_.cancel(ignored);  // the watch
    if (in.is_refused_on_head && !is_closed_) co_await linger();
  }
  if (!is_closed_ && stream_.is_encrypted()) {
    enter(Phase::write, std::chrono::seconds(1));
    co_await stream_.say_goodbye();
  }
  boost::system::error_code ignored;
  if (!is_closed_) socket_.shutdown(Socket::shutdown_both, ignored);
  close();
}

awaitable<void> Connection::refuse() {
  const auto self = shared_from_this();
  if (co_await shake_hands()) co_await send_error({503, "too many connections"});
  close();
}

}  // namespace rocmforge::server
