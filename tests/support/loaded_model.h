#pragma once
// A model file opened on a backend, the CPU's unless told otherwise, ready for sessions. Header only: for tests that
// cross rooms.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cpu/backend.h"
#include "engine/session.h"
#include "plan/execution_plan.h"

namespace rocmforge::testing {

struct LoadedModel {
  std::shared_ptr<const gguf::GgufFile> file;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<ExecutionPlan> plan;

  static LoadedModel open(const std::string& path, size_t n_threads = 2, const FileCalls* calls = nullptr,
                          size_t n_loaders = 2) {
    return open_on(std::make_unique<CpuBackend>(CpuBackend::Options{.n_threads = n_threads}), path, calls, n_loaders);
  }

  static LoadedModel open_on(std::unique_ptr<Backend> backend, const std::string& path,
                             const FileCalls* calls = nullptr, size_t n_loaders = 2, bool fuse = true) {
    LoadedModel model;
    auto file = gguf::GgufFile::open(path, {}, calls);
    EXPECT_TRUE(file.ok()) << file.error().message;
    model.file = std::make_shared<gguf::GgufFile>(std::move(*file));
    model.backend = std::move(backend);
    auto plan = ExecutionPlan::from_gguf(*model.backend, model.file,
                                         {.weights = {.n_loaders = n_loaders}, .n_context = 0, .fuse = fuse});
    EXPECT_TRUE(plan.ok()) << plan.error().message;
    model.plan = std::move(*plan);
    return model;
  }

  Session session(KvType kv_type = KvType::f16, uint32_t max_rows = 64, uint32_t prefetch_window = 3) const {
    auto made = Session::create(
        *plan, {.max_rows = max_rows, .max_outputs = max_rows, .kv_type = kv_type, .prefetch_window = prefetch_window});
    EXPECT_TRUE(made.ok()) << made.error().message;
    return std::move(*made);
  }
};

inline std::vector<TokenId> some_tokens(uint32_t n, uint32_t n_vocab) {
  std::vector<TokenId> tokens;
  for (uint32_t i = 0; i < n; i++) tokens.push_back(TokenId(static_cast<int32_t>((i * 37 + 11) % n_vocab)));
  return tokens;
}

// The logits after every token; fails the test on an error.
inline std::vector<float> evaluate_all(Session& session, std::span<const TokenId> tokens) {
  const auto logits = session.evaluate_all(tokens);
  EXPECT_TRUE(logits.ok()) << (logits.ok() ? "" : logits.error().message);
  if (!logits.ok()) return {};
  return {logits->begin(), logits->end()};
}

}  // namespace rocmforge::testing
