// Any bytes as a JSON Schema: a grammar of which random sentences are JSON that it accepts, or an error.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "grammar/compile.h"
#include "grammar/matcher.h"
#include "grammar/sampler.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rocmforge;
  using namespace rocmforge::grammar;
  if (size == 0 || size > 4096) return 0;
  Source source{.text = std::string(reinterpret_cast<const char*>(data) + 1, size - 1)};
  source.schema.any_order = (data[0] & 1) != 0;
  const auto made = compile(source);
  if (!made.ok()) return 0;
  const auto sentence = random_sentence(*made, {.seed = data[0], .length = 30, .max_length = 2'000});
  if (!sentence.ok()) {
    CHECK(sentence.error().code == ErrorCode::limit_exceeded);
    return 0;
  }
  const auto value = parse_json(*sentence, {.max_depth = 1'000});
  // An exponent may make a number that no double holds.
  CHECK(value.ok() || sentence->find_first_of("eE") != std::string::npos);
  Matcher matcher(*made);
  const auto n = matcher.accept(*sentence);
  CHECK(n.ok() && *n == sentence->size() && matcher.is_end());
  return 0;
}
