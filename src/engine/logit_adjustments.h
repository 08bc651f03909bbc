#pragma once
// What logit_bias, the penalties and DRY of sampler.h do to single logits.
//
// apply() never makes a larger logit the smaller one of two, also after rounding; its results are finite.

#include <span>
#include <vector>

#include "engine/sampler.h"

namespace rocmforge {

class LogitAdjustments {
 public:
  struct One {
    uint32_t token = 0;
    float bias = 0;
    uint32_t n_seen = 0;  // in the part of the history that counts
    float dry = 0;        // what DRY takes off
  };

  LogitAdjustments(const SamplingOptions& options, const History& history, uint32_t n_vocab);

  bool empty() const { return all_.empty(); }
  std::span<const One> all() const { return all_; }  // by token
  float apply(const One& one, float logit) const;
  float apply(uint32_t token, float logit) const;  // as it is when nothing adjusts the token

 private:
  float repetition_, presence_, frequency_;
  std::vector<One> all_;
};

}  // namespace rocmforge
