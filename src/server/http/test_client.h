#pragma once
// A plain socket to a server on this machine, for tests: what is sent is exactly what was written.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace rocmforge::server::testing {

class TestClient {
 public:
  explicit TestClient(uint16_t port, int receive_bytes = 0) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_bytes) setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_open_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~TestClient() { close(); }
  TestClient(TestClient&& other) noexcept : fd_(std::exchange(other.fd_, -1)), is_open_(other.is_open_) {}
  TestClient& operator=(TestClient&&) = delete;

  bool is_open() const { return is_open_; }
  int descriptor() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  // Closes with a RST, as a killed process with unread bytes does.
  void reset() {
    const linger now{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }

  // Stops early when the server closes.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  // What arrives next; empty when the server has closed or nothing came in time.
  std::string read_some(std::chrono::milliseconds patience = std::chrono::seconds(10)) {
    pollfd waiting{fd_, POLLIN, 0};
    is_closed_ = false;
    if (poll(&waiting, 1, static_cast<int>(patience.count())) <= 0) return {};
    char buffer[16384];
    const ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
    is_closed_ = n <= 0;
    return n > 0 ? std::string(buffer, static_cast<size_t>(n)) : std::string();
  }
  // Until the server closes, or `patience` passes without a byte.
  std::string read_all(std::chrono::milliseconds patience = std::chrono::seconds(10)) {
    std::string all;
    for (std::string some = read_some(patience); !some.empty(); some = read_some(patience)) all += some;
    return all;
  }
  // Until `text` has arrived; what came up to the last read.
  std::string read_until(std::string_view text, std::chrono::milliseconds patience = std::chrono::seconds(10)) {
    std::string all;
    while (all.find(text) == std::string::npos) {
      const std::string some = read_some(patience);
      if (some.empty()) break;
      all += some;
    }
    return all;
  }
  // Whether the last read found the connection closed by the server.
  bool is_closed_by_server() const { return is_closed_; }

  static int status_of(std::string_view answer) {
    return answer.size() > 12 && answer.starts_with("HTTP/1.1 ") ? std::stoi(std::string(answer.substr(9, 3))) : 0;
  }
  static std::string body_of(std::string_view answer) {
    const size_t end = answer.find("\r\n\r\n");
    return end == std::string_view::npos ? "" : std::string(answer.substr(end + 4));
  }

 private:
  int fd_;
  bool is_open_ = false, is_closed_ = false;
};

}  // namespace rocmforge::server::testing
