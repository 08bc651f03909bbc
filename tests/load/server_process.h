#pragma once
// `rocmforge serve` as a child process, on a free port.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace rocmforge::load {

struct Program {
  std::string binary, model;
};

class ServerProcess {
 public:
  // `before_exec` is called in the child.
  ServerProcess(const Program& program, const std::vector<std::string>& flags,
                const std::function<void()>& before_exec = {}) {
    int channel[2];
    if (pipe(channel) != 0) throw std::runtime_error("no pipe");
    pid_ = fork();
    if (pid_ == 0) {
      dup2(channel[1], STDERR_FILENO);
      close(channel[0]);
      close(channel[1]);
      std::vector<std::string> words = {program.binary, "serve", program.model, "--port", "0"};
      words.insert(words.end(), flags.begin(), flags.end());
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      if (before_exec) before_exec();
      execv(program.binary.c_str(), arguments.data());
      _exit(127);
    }
    close(channel[1]);
    errors_ = channel[0];
    // "rocmforge: ready: http://127.0.0.1:PORT serves ..."
    std::string said;
    char c = 0;
    while (said.find("ready: http://") == std::string::npos || c != '\n') {
      if (read(errors_, &c, 1) != 1) throw std::runtime_error("the server did not start: " + said);
      said += c;
    }
    const size_t colon = said.find(':', said.find("http://") + 7);
    port_ = static_cast<uint16_t>(std::stoi(said.substr(colon + 1)));
  }
  ~ServerProcess() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(errors_);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  uint16_t port() const { return port_; }
  pid_t pid() const { return pid_; }
  void signal(int number) const { kill(pid_, number); }

  // Its exit code; -1 when it did not end in time or was killed.
  int wait(std::chrono::seconds patience) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (std::chrono::steady_clock::now() < end) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return -1;
  }

  // RssAnon + VmSwap: what it holds, wherever the system keeps it.
  uint64_t memory_kib() const { return status_value("RssAnon:") + status_value("VmSwap:"); }
  uint64_t peak_kib() const { return status_value("VmHWM:"); }
  uint64_t n_threads() const { return status_value("Threads:"); }
  uint64_t n_descriptors() const {
    uint64_t n = 0;
    if (FILE* list = popen(("ls /proc/" + std::to_string(pid_) + "/fd | wc -l").c_str(), "r")) {
      if (std::fscanf(list, "%lu", &n) != 1) n = 0;
      pclose(list);
    }
    return n;
  }

 private:
  uint64_t status_value(const std::string& key) const {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/status");
    for (std::string word; file >> word;) {
      if (word != key) continue;
      uint64_t value = 0;
      file >> value;
      return value;
    }
    return 0;
  }

  pid_t pid_ = 0;
  int errors_ = -1;
  uint16_t port_ = 0;
};

}  // namespace rocmforge::load
