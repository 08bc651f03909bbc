#include "grammar/sampler.h"

#include <fmt/core.h>

#include <vector>

#include "grammar/matcher.h"

namespace rocmforge::grammar {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t below(uint64_t n) {  // SplitMix64
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (z ^ z >> 31) % n;
  }

 private:
  uint64_t state_;
};

// Printable ASCII is likelier, so that sentences can be read.
uint64_t weight_of(uint8_t byte) {
  return byte >= 0x80 || byte == '\\' ? 1 : byte < 0x20 ? 4 : 16;
}

}  // namespace

Result<std::string> random_sentence(const std::shared_ptr<Constraint>& constraint, const SentenceOptions& options) {
  Matcher matcher(constraint);
  Random random(options.seed);
  std::string out;
  while (!matcher.is_complete()) {
    const bool ends_soon = out.size() >= options.length;
    if (matcher.is_end() && (ends_soon || random.below(4) == 0)) break;
    struct Way {
      uint8_t byte;
      uint64_t weight;
    };
    std::vector<Way> ways, shortest_ways;
    uint64_t total = 0;
    const uint32_t now = ends_soon ? matcher.least_completion() : 0;
    uint32_t shortest = now;
    const size_t before = matcher.snapshot();
    for (unsigned b = 0; b < 256; b++) {
      const char byte = static_cast<char>(b);
      if (TRY(matcher.accept(std::string_view(&byte, 1))) == 0) continue;
      ways.push_back({static_cast<uint8_t>(b), weight_of(static_cast<uint8_t>(b))});
      total += ways.back().weight;
      if (ends_soon) {
        const uint32_t least = matcher.least_completion();
        if (least < shortest) shortest_ways.clear(), shortest = least;
        if (least == shortest && least < now) shortest_ways.push_back({static_cast<uint8_t>(b), 1});
      }
      matcher.rollback(before);
    }
    // The estimate does not see guards: where it finds nothing shorter, any way will do.
    if (!shortest_ways.empty()) ways = std::move(shortest_ways), total = ways.size();
    if (ways.empty()) {
      if (matcher.is_end()) break;
      return Error{ErrorCode::internal, fmt::format("grammar: no byte can follow '{}'", out)};
    }
    uint64_t left = random.below(total);
    size_t i = 0;
    for (; left >= ways[i].weight; i++) left -= ways[i].weight;
    out += static_cast<char>(ways[i].byte);
    TRY(matcher.accept(std::string_view(out).substr(out.size() - 1)));
    if (out.size() > options.max_length) {
      return Error{ErrorCode::limit_exceeded,
                   fmt::format("grammar: a sentence of more than {} bytes", options.max_length)};
    }
  }
  return out;
}

}  // namespace rocmforge::grammar
