// How fast text becomes tokens: megabytes per second on English and on code, nanoseconds per byte on hostile text, and
// the time to load a vocabulary. The vocabularies are the story model's and, where the reference material lies beside
// the checkout, the eight of goldens/tokenizers.

#include <benchmark/benchmark.h>
#include <malloc.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gguf/reader.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge::tokenizer {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = RF_SOURCE_DIR;

template <class T>
T require(Result<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "tokenizer_bench: %s\n", result.error().message.c_str());
  std::exit(1);
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string english() {
  const fs::path whole = kSource / ".." / "shared/demo/held-out.txt", excerpt = kSource / "tests/data/held-out.txt";
  return read(fs::exists(whole) ? whole : excerpt);
}

std::string code() {
  std::string text;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(kSource / "src")) {
    if (entry.path().extension() == ".cpp" || entry.path().extension() == ".h") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) text += read(file);
  return text;
}

std::string repeated(std::string_view part, size_t n_bytes) {
  std::string text;
  while (text.size() < n_bytes) text += part;
  text.resize(n_bytes);
  return text;
}

std::string random_letters(size_t n_bytes) {
  std::mt19937 rng(1);
  std::string text(n_bytes, ' ');
  for (char& c : text) c = static_cast<char>('a' + rng() % 26);
  return text;
}

struct Hostile {
  const char* name;
  std::function<std::string(size_t)> text;
};
const Hostile kHostile[] = {
    {"letters", [](size_t n) { return repeated("a", n); }},
    {"spaces", [](size_t n) { return repeated(" ", n); }},
    {"spaces_then_x", [](size_t n) { return repeated(" ", n - 1) + "x"; }},
    {"angles", [](size_t n) { return repeated("<", n); }},
    {"angle_bars", [](size_t n) { return repeated("<|", n); }},
    {"digits", [](size_t n) { return repeated("7", n); }},
    {"newlines", [](size_t n) { return repeated("\n", n); }},
    {"upper_case", [](size_t n) { return repeated("A", n); }},
    {"quotes", [](size_t n) { return repeated("'", n); }},
    {"random_letters", random_letters},
    {"han", [](size_t n) { return repeated("\xE4\xB8\xAD", n - n % 3); }},
    {"marks", [](size_t n) { return repeated("\xCC\x81", n - n % 2); }},
};

std::map<std::string, fs::path> vocabularies() {
  std::map<std::string, fs::path> found = {{"story", kSource / "tests/data/tokenizer/story-vocab.gguf"}};
  const fs::path shared = kSource / ".." / "shared/goldens/tokenizers";
  if (!fs::exists(shared)) return found;
  for (const auto& entry : fs::directory_iterator(shared)) {
    if (entry.path().extension() == ".gguf") found[entry.path().stem()] = entry.path();
  }
  return found;
}

void encode(benchmark::State& state, const Tokenizer& tokenizer, const std::string& text) {
  size_t n_tokens = 0;
  for (auto _ : state) n_tokens = require(tokenizer.encode(text)).size();
  const auto n_bytes = static_cast<double>(text.size()) * static_cast<double>(state.iterations());
  state.counters["MB/s"] = benchmark::Counter(n_bytes / 1e6, benchmark::Counter::kIsRate);
  state.counters["bytes/token"] = static_cast<double>(text.size()) / static_cast<double>(n_tokens);
}

// Of this thread, so that what else runs on the machine does not count.
double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double seconds_to_encode(const Tokenizer& tokenizer, const std::string& text) {
  double best = 1e9;
  for (int i = 0; i < 3; i++) {
    const double start = cpu_seconds();
    benchmark::DoNotOptimize(require(tokenizer.encode(text)));
    best = std::min(best, cpu_seconds() - start);
  }
  return best;
}

void encode_hostile(benchmark::State& state, const Tokenizer& tokenizer, const Hostile& hostile) {
  constexpr size_t kBytes = 1'000'000;
  double one = 0, two = 0;
  for (auto _ : state) {
    one = seconds_to_encode(tokenizer, hostile.text(kBytes));
    two = seconds_to_encode(tokenizer, hostile.text(2 * kBytes));
  }
  state.counters["ns/byte"] = one / kBytes * 1e9;
  state.counters["twice/once"] = two / one;
}

void load(benchmark::State& state, const gguf::Metadata& metadata) {
  for (auto _ : state) benchmark::DoNotOptimize(require(Tokenizer::load(metadata)));
}

}  // namespace
}  // namespace rocmforge::tokenizer

int main(int argc, char** argv) {
  using namespace rocmforge::tokenizer;
  // Memory once used stays ours: the system's work for fresh pages is not what is measured.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  const std::string english_text = english(), code_text = code();
  std::vector<std::unique_ptr<Tokenizer>> tokenizers;
  for (const auto& [name, path] : vocabularies()) {
    auto file = std::make_shared<rocmforge::gguf::GgufFile>(require(rocmforge::gguf::GgufFile::open(path)));
    tokenizers.push_back(std::make_unique<Tokenizer>(require(Tokenizer::load(file->metadata()))));
    const Tokenizer& t = *tokenizers.back();
    const auto add = [name = name](const char* what, auto run) {
      return benchmark::RegisterBenchmark((name + "/" + what).c_str(), run)->Unit(benchmark::kMillisecond);
    };
    add("load", [file](benchmark::State& state) { load(state, file->metadata()); });
    add("english", [&](benchmark::State& state) { encode(state, t, english_text); });
    add("code", [&](benchmark::State& state) { encode(state, t, code_text); });
    for (const Hostile& hostile : kHostile) {
      add((std::string("hostile/") + hostile.name).c_str(), [&](benchmark::State& state) {
        encode_hostile(state, t, hostile);
      })->Iterations(1);
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
