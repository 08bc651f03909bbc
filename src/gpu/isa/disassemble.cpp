#include "gpu/isa/disassemble.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <cstring>

#include "gpu/isa/code_object.h"

namespace rocmforge::gpu::isa {
namespace {

Error failure(std::string text) {
  return Error{ErrorCode::device_unavailable, std::move(text)};
}

std::string disassembler() {
  const char* named = std::getenv("ROCMFORGE_OBJDUMP");
  return named != nullptr ? named : "llvm-objdump-19";
}

class OpenFile {
 public:
  explicit OpenFile(int fd) : fd_(fd) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

// A program's standard output; its first argument is its name. The child inherits open files without close-on-exec.
Result<std::string> output_of(const std::vector<std::string>& arguments) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failure("no pipe for " + arguments[0]);
  const OpenFile from(ends[0]);
  std::vector<char*> argv;
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  {
    const OpenFile to(ends[1]);
    child = ::vfork();
    if (child == 0) {
      ::dup2(to.fd(), 1);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
  }
  if (child < 0) return failure("cannot start " + arguments[0]);
  std::string out;
  std::array<char, 1 << 16> some;
  for (ssize_t n; (n = ::read(from.fd(), some.data(), some.size())) != 0;) {
    if (n > 0)
      out.append(some.data(), static_cast<size_t>(n));
    else if (errno != EINTR)
      break;
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return failure(arguments[0] + " failed or is not installed");
  return out;
}

}  // namespace

bool has_disassembler() {
  return output_of({disassembler(), "--version"}).ok();
}

Result<std::map<std::string, std::vector<Line>>> disassemble(std::span<const std::byte> elf,
                                                             const std::vector<std::string>& names) {
  const OpenFile file(::memfd_create("code object", 0));
  for (size_t at = 0; at < elf.size();) {
    const ssize_t n = ::write(file.fd(), elf.data() + at, elf.size() - at);
    if (n <= 0) return failure("cannot write a code object for the disassembler");
    at += static_cast<size_t>(n);
  }
  const std::string path = "/proc/self/fd/" + std::to_string(file.fd());
  const std::string symbols = fmt::format("--disassemble-symbols={}", fmt::join(names, ","));
  const std::string text = TRY(output_of({disassembler(), symbols, "--no-show-raw-insn", path}));
  // "ADDRESS <KERNEL>:", then for each instruction a tab, itself, "// ADDRESS: WORDS".
  std::map<std::string, std::vector<Line>> kernels;
  std::vector<Line>* lines = nullptr;
  for (size_t from = 0; from < text.size();) {
    const size_t end = std::min(text.find('\n', from), text.size());
    const std::string line = text.substr(from, end - from);
    from = end + 1;
    if (line.ends_with(">:")) {
      const size_t name = line.find('<') + 1;
      lines = &kernels[line.substr(name, line.size() - 2 - name)];
    }
    const size_t comment = line.find("//");
    if (!line.starts_with('\t') || comment == std::string::npos || lines == nullptr) continue;
    std::string instruction = line.substr(1, comment - 1);
    while (!instruction.empty() && std::isspace(static_cast<unsigned char>(instruction.back()))) instruction.pop_back();
    lines->push_back({std::strtoull(line.c_str() + comment + 2, nullptr, 16), std::move(instruction)});
  }
  return kernels;
}

}  // namespace rocmforge::gpu::isa
