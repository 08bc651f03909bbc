// Any bytes as a grammar in GBNF, Lark, and as a regular expression: one whose sentences it accepts, or an error.

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "grammar/compile.h"
#include "grammar/matcher.h"
#include "grammar/sampler.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rocmforge;
  using namespace rocmforge::grammar;
  if (size > 2048) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const Notation notation : {Notation::gbnf, Notation::lark, Notation::regex}) {
    const auto made = compile({.notation = notation, .text = text});
    if (!made.ok()) continue;
    const auto sentence = random_sentence(*made, {.seed = size, .length = 20, .max_length = 1'000});
    if (!sentence.ok()) {
      CHECK(sentence.error().code == ErrorCode::limit_exceeded);
      continue;
    }
    Matcher matcher(*made);
    const auto n = matcher.accept(*sentence);
    CHECK(n.ok() && *n == sentence->size() && matcher.is_end());
  }
  return 0;
}
