#pragma once
// The random numbers of Python's random.Random(text): the reference's logits belong to models whose weights were drawn
// with them. Mersenne Twister 19937, seeded with the text and its SHA-512.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace rocmforge::golden_models {

class PythonRandom {
 public:
  explicit PythonRandom(std::string_view text);

  uint32_t next();                              // 32 bits
  double uniform();                             // 53 bits, below 1
  double gauss(double mean, double deviation);  // random.gauss: pairs by Box and Muller
  std::vector<uint16_t> halves(uint64_t n);     // randbytes(2 n), as little-endian numbers

 private:
  static constexpr size_t kWords = 624;

  void seed(const std::vector<uint32_t>& key);

  std::array<uint32_t, kWords> state_{};
  size_t at_ = kWords;
  std::optional<double> kept_;  // the other one of a pair
};

std::array<uint8_t, 64> sha512(std::string_view text);

// Where the normal distribution's integral is p: Wichura's algorithm AS 241, for p from 1e-10 to 1 - 1e-10.
double normal_quantile(double p);

}  // namespace rocmforge::golden_models
