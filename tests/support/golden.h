#pragma once
// Reference logits: the input tokens, all logits at a few positions, the greedy continuation.
//
//   tokens 1 104 71 ...
//   logits 24 2.32236 1.67556 ...      (position, then one value per token of the vocabulary)
//   greedy 158 106 ...

#include <cmath>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "base/ids.h"
#include "support/support.h"

namespace rocmforge::testing {

struct Golden {
  std::vector<TokenId> tokens;
  std::map<uint32_t, std::vector<float>> logits;  // by position
  std::vector<TokenId> greedy;

  static Golden read(const std::string& path) {
    Golden golden;
    std::istringstream lines(read_text(path));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string kind;
      words >> kind;
      if (kind == "tokens" || kind == "greedy") {
        auto& ids = kind == "tokens" ? golden.tokens : golden.greedy;
        for (int32_t id; words >> id;) ids.push_back(TokenId(id));
      } else if (kind == "logits") {
        uint32_t position = 0;
        words >> position;
        for (float x; words >> x;) golden.logits[position].push_back(x);
      }
    }
    return golden;
  }
};

// sum((a - b)^2) / sum(b^2), accumulated over several pairs of rows.
class Nmse {
 public:
  void add(std::span<const float> ours, std::span<const float> reference) {
    for (size_t i = 0; i < reference.size(); i++) {
      const double difference = double{ours[i]} - reference[i];
      error_ += difference * difference;
      norm_ += double{reference[i]} * reference[i];
    }
  }
  double value() const { return error_ / norm_; }

 private:
  double error_ = 0, norm_ = 0;
};

// How far the two best logits lie apart, relative to the logits' root mean square: below 2 % a greedy choice may
// differ.
inline double relative_gap(std::span<const float> logits) {
  float first = -INFINITY, second = -INFINITY;
  double squares = 0;
  for (const float x : logits) {
    squares += double{x} * x;
    if (x > first) {
      second = first;
      first = x;
    } else if (x > second) {
      second = x;
    }
  }
  return (first - second) / std::sqrt(squares / static_cast<double>(logits.size()));
}

}  // namespace rocmforge::testing
