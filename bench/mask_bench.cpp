// Masks over a vocabulary: how long a schema takes to compile, a mask to compute, and a token to be accepted.
//
//     mask_bench VOCABULARY.gguf FILE...
//
// A file has {"schema": ..., "tests": [{"valid": true, "data": ...}, ...]}, as MaskBench's files have. The tokens of
// each valid instance are followed from the first to the last with a mask before each. Times are of the thread's
// processor. Equal masks have equal checksums, whatever computed them.

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <numeric>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "gguf/reader.h"
#include "grammar/compile.h"
#include "grammar/matcher.h"
#include "grammar/token_trie.h"
#include "tokenizer/tokenizer.h"

namespace {

using namespace rocmforge;

double microseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

void print_times(const char* what, std::vector<double>& all) {
  if (all.empty()) return;
  std::ranges::sort(all);
  const auto at = [&](double part) { return all[static_cast<size_t>(part * static_cast<double>(all.size() - 1))]; };
  const double mean = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
  fmt::print("{:<10} {:>8} times: mean {:8.1f} us, p50 {:8.1f}, p90 {:8.1f}, p95 {:8.1f}, p99 {:8.1f}, most {:9.1f}\n",
             what, all.size(), mean, at(0.5), at(0.9), at(0.95), at(0.99), all.back());
}

struct Times {
  std::vector<double> compile, first_mask, mask, accept;
  uint64_t checksum = 0;  // of all masks
  size_t n_refused = 0, n_invalid_accepted = 0, n_valid_rejected = 0, n_valid = 0, n_invalid = 0, n_errors = 0;
};

// Follows the instance; whether it was accepted.
bool follow(const std::shared_ptr<grammar::Constraint>& constraint,
            const std::shared_ptr<const grammar::TokenTrie>& vocabulary, const tokenizer::Tokenizer& tokenizer,
            const std::string& text, bool is_timed, Times& times) {
  grammar::Matcher matcher(constraint, vocabulary);
  const auto tokens = tokenizer.encode(text);
  bool is_first = true;
  for (const TokenId token : *tokens) {
    if (is_timed) {
      const double start = microseconds();
      const auto mask = matcher.mask();
      (is_first ? times.first_mask : times.mask).push_back(microseconds() - start);
      is_first = false;
      if (!mask.ok()) times.n_errors++;
      for (const uint64_t word : mask.ok() ? (*mask)->words() : std::span<const uint64_t>()) {
        times.checksum = (times.checksum ^ word) * 0x9e3779b97f4a7c15u;
      }
      if (!mask.ok() || !(*mask)->contains(token.value)) return false;
    } else if (const auto allowed = matcher.allows(token.value); !allowed.ok() || !*allowed) {
      return false;
    }
    const double start = microseconds();
    if (!matcher.accept(token.value).ok()) return false;
    if (is_timed) times.accept.push_back(microseconds() - start);
  }
  return matcher.is_end();
}

void run(const std::string& path, const tokenizer::Tokenizer& tokenizer,
         const std::shared_ptr<const grammar::TokenTrie>& vocabulary, Times& times) {
  const auto text = read_whole_file(path, 64u << 20);
  const auto json = text.ok() ? parse_json(*text) : Result<JsonValue>(text.error());
  if (!json.ok() || !json->find("schema")) return;
  const std::string schema = JsonWriter().value(*json->find("schema")).take();
  const double start = microseconds();
  const auto made = grammar::compile({.text = schema});
  times.compile.push_back(microseconds() - start);
  if (!made.ok()) {
    times.n_refused++;
    return;
  }
  const JsonValue* tests = json->find("tests");
  for (const JsonValue& test : tests ? *tests->as<JsonArray>() : JsonArray{}) {
    const JsonValue* data = test.find("data");
    const JsonValue* valid = test.find("valid");
    if (!data || !valid) continue;
    const bool is_valid = *valid->as<bool>();
    const bool is_accepted = follow(*made, vocabulary, tokenizer, JsonWriter().value(*data).take(), is_valid, times);
    (is_valid ? times.n_valid : times.n_invalid)++;
    times.n_valid_rejected += is_valid && !is_accepted;
    if (!is_valid && is_accepted) {
      times.n_invalid_accepted++;
      fmt::print("{}: accepts {}\n", path, JsonWriter().value(*data).take().substr(0, 200));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: mask_bench VOCABULARY.gguf FILE...\n");
    return 2;
  }
  const auto file = gguf::GgufFile::open(argv[1]);
  if (!file.ok()) return fmt::print(stderr, "{}\n", file.error().message), 1;
  const auto tokenizer = tokenizer::Tokenizer::load(file->metadata());
  if (!tokenizer.ok()) return fmt::print(stderr, "{}\n", tokenizer.error().message), 1;
  const auto vocabulary = grammar::TokenTrie::of(*tokenizer);
  Times times;
  for (int i = 2; i < argc; i++) run(argv[i], *tokenizer, vocabulary, times);
  fmt::print("{} tokens; {} schemas, {} refused; {} valid instances, {} rejected; {} invalid, {} accepted; {} errors\n",
             vocabulary->n_tokens(), times.compile.size(), times.n_refused, times.n_valid, times.n_valid_rejected,
             times.n_invalid, times.n_invalid_accepted, times.n_errors);
  fmt::print("checksum of the masks: {:016x}\n", times.checksum);
  print_times("compile", times.compile);
  print_times("first mask", times.first_mask);
  print_times("mask", times.mask);
  print_times("accept", times.accept);
  return 0;
}
