// Renderings by Python's jinja2, set up as Hugging Face does: real models' templates where the reference material is at
// hand, and a few of our own always.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/json.h"
#include "chat/jinja/template.h"
#include "chat/jinja/test_options.h"
#include "support/support.h"

namespace rocmforge::jinja {
namespace {

using ::rocmforge::testing::data_path;
using ::rocmforge::testing::read_text;

const std::string& member(const JsonValue& row, std::string_view key) {
  return *row.find(key)->as<std::string>();
}

// Every row of folder/expected.json equals what the template named there gives; the number of rows.
size_t check_rows(const std::string& folder) {
  const auto rows = parse_json(read_text(folder + "/expected.json"));
  EXPECT_TRUE(rows.ok()) << rows.error().message;
  std::map<std::string, Template> templates;
  size_t n_rows = 0;
  for (const JsonValue& row : *rows->as<JsonArray>()) {
    const std::string& name = member(row, "template");
    if (!templates.contains(name)) {
      auto parsed = Template::parse(read_text(fmt::format("{}/{}", folder, name)));
      if (!parsed.ok()) {
        ADD_FAILURE() << name << ": " << parsed.error().message;
        continue;
      }
      templates.emplace(name, std::move(*parsed));
    }
    const std::string label = name + " / " + member(row, "case");
    const auto got = templates.at(name).render(*row.find("context"), fixed_time());
    if (row.find("error") != nullptr) {
      EXPECT_FALSE(got.ok()) << label << ": should fail with " << member(row, "error");
      EXPECT_TRUE(got.ok() || got.error().message.starts_with("template: line ")) << got.error().message;
    } else if (!got.ok()) {
      ADD_FAILURE() << label << ": " << got.error().message;
    } else {
      EXPECT_EQ(*got, member(row, "expected")) << label;
    }
    n_rows++;
  }
  return n_rows;
}

TEST(JinjaGolden, RendersOurTemplatesAsPythonDoes) {
  EXPECT_GE(check_rows(data_path("templates")), 20u);
}

TEST(JinjaGolden, RendersRealTemplatesAsPythonDoes) {
  RF_NEED_SHARED(folder, "goldens/templates");
  EXPECT_EQ(check_rows(folder), 392u);
}

}  // namespace
}  // namespace rocmforge::jinja
