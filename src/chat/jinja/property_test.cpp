// Random templates render as Python's jinja2 renders them. The oracle is one Python process fed by a file; where there
// is no Python or no jinja2 the test skips, saying so.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/json.h"
#include "chat/jinja/template.h"
#include "chat/jinja/template_generator.h"
#include "chat/jinja/test_options.h"
#include "chat/jinja/text.h"
#include "support/support.h"

namespace rocmforge::jinja {
namespace {

using ::rocmforge::testing::read_text;
using ::rocmforge::testing::seeded_rng;
using ::rocmforge::testing::source_path;
using ::rocmforge::testing::TempDir;

constexpr size_t kTemplates = 1000;

size_t n_templates() {
  const char* asked = std::getenv("ROCMFORGE_TEST_CASES");
  return asked != nullptr ? std::strtoull(asked, nullptr, 10) : kTemplates;
}

// What we refuse and Python does not: results beyond our limits, integers beyond 64 bits, complex numbers.
bool is_our_limit(const Error& error) {
  return error.code == ErrorCode::template_limit || error.message.find("64 bits") != std::string::npos ||
         error.message.find("64-bit") != std::string::npos || error.message.find("complex") != std::string::npos;
}

TEST(JinjaProperty, RandomTemplatesRenderAsInPython) {
  if (std::system("python3 -c 'import jinja2' 2>/dev/null") != 0) GTEST_SKIP() << "no python3 with jinja2";
  TemplateGenerator generator(seeded_rng()());
  struct Case {
    std::string source;
    std::string context;  // as JSON: both sides read the same text
  };
  std::vector<Case> cases;
  std::string batch = "[";
  for (size_t i = 0; i < n_templates(); i++) {
    JsonWriter context;
    context.value(generator.make_context());
    cases.push_back({generator.make_template(), context.take()});
    batch += i > 0 ? ",{\"source\":" : "{\"source\":";
    append_json_string(batch, cases.back().source);
    batch += ",\"context\":" + cases.back().context + "}";
  }
  batch += "]";
  const TempDir folder;
  const std::string input = folder.write("batch.json", batch);
  const std::string output = folder.file("results.json");
  const std::string command = "python3 " + source_path("tests/jinja_oracle.py") + " " + input + " " + output;
  ASSERT_EQ(std::system(command.c_str()), 0) << command;

  JsonLimits limits;
  limits.max_bytes = size_t{1} << 30;
  const auto results = parse_json(read_text(output), limits);
  ASSERT_TRUE(results.ok()) << results.error().message;
  const JsonArray& rows = *results->as<JsonArray>();
  ASSERT_EQ(rows.size(), cases.size());
  size_t n_equal = 0;
  size_t n_failed_alike = 0;
  size_t n_skipped = 0;
  for (size_t i = 0; i < cases.size() && !::testing::Test::HasFailure(); i++) {
    const auto got = render(cases[i].source, *parse_json(cases[i].context), fixed_time());
    const JsonValue* expected = rows[i].find("output");
    const std::string label = "case " + std::to_string(i) + "\n" + cases[i].source + "\n--- " + cases[i].context;
    const bool has_address =
        expected != nullptr && to_lower(*expected->as<std::string>()).find(" at 0x") != std::string::npos;
    if (rows[i].find("skipped") != nullptr || has_address || (!got.ok() && is_our_limit(got.error()))) {
      n_skipped++;
    } else if (expected == nullptr) {
      EXPECT_FALSE(got.ok()) << "Python: " << *rows[i].find("error")->as<std::string>() << "\nours: " << *got << "\n"
                             << label;
      n_failed_alike++;
    } else if (!got.ok()) {
      ADD_FAILURE() << got.error().message << "\nPython: " << *expected->as<std::string>() << "\n" << label;
    } else {
      EXPECT_EQ(*got, *expected->as<std::string>()) << label;
      n_equal++;
    }
  }
  RecordProperty("equal", std::to_string(n_equal));
  RecordProperty("failed_alike", std::to_string(n_failed_alike));
  RecordProperty("beyond_our_limits", std::to_string(n_skipped));
  printf("%zu equal, %zu failed alike, %zu beyond our limits\n", n_equal, n_failed_alike, n_skipped);
  EXPECT_GT(n_equal, cases.size() / 3);
  EXPECT_LT(n_skipped, cases.size() / 20);
}

}  // namespace
}  // namespace rocmforge::jinja
