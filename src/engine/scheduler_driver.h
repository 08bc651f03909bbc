#pragma once
// For tests: drives a scheduler without an engine.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/scheduler.h"

namespace rocmforge {

inline std::vector<TokenId> prompt_of(uint32_t n, int first = 0) {
  std::vector<TokenId> tokens;
  for (uint32_t i = 0; i < n; i++) tokens.push_back(TokenId(first + static_cast<int>(i)));
  return tokens;
}

// Runs steps in which nothing fails; every answer is token 9.
struct Driver {
  explicit Driver(const SchedulerOptions& options) : scheduler(options) {}

  void submit(uint64_t id, std::vector<TokenId> tokens, uint32_t n_answer, std::string salt = "") {
    const auto max_length = static_cast<uint32_t>(tokens.size()) + n_answer;
    ends[id] = max_length;
    ASSERT_TRUE(
        scheduler
            .submit(
                {.id = RequestId(id), .tokens = std::move(tokens), .max_length = max_length, .salt = std::move(salt)})
            .ok());
  }

  // Rows per request.
  std::map<uint64_t, uint32_t> step() {
    std::map<uint64_t, uint32_t> rows;
    std::vector<RunResult> results;
    for (const SequenceRun& run : scheduler.schedule().runs) {
      rows[run.id.value] = static_cast<uint32_t>(run.tokens.size());
      if (run.n_cached) cached[run.id.value] = *run.n_cached;
      last = {run.first_position, run.first_stored};
      RunResult result;
      if (run.is_last_of_known) {
        const uint32_t n_now = run.first_position + static_cast<uint32_t>(run.tokens.size()) + 1;
        if (n_now >= ends[run.id.value]) {
          result.kind = RunResult::Kind::ended;
        } else {
          result.token = TokenId(9);
        }
      }
      results.push_back(result);
    }
    scheduler.commit(results);
    EXPECT_TRUE(scheduler.is_consistent());
    return rows;
  }

  Scheduler scheduler;
  std::map<uint64_t, uint32_t> ends, cached;
  struct {
    uint32_t first_position = 0, first_stored = 0;
  } last;  // run
};

using Rows = std::map<uint64_t, uint32_t>;

}  // namespace rocmforge
