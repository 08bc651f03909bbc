#include "base/json.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "support/colliding_keys.h"
#include "support/cpu_time.h"
#include "support/support.h"

namespace rocmforge {
namespace {

ErrorCode code_of(std::string_view text, JsonLimits limits = {}) {
  const auto result = parse_json(text, limits);
  EXPECT_FALSE(result.ok()) << text;
  return result.ok() ? ErrorCode::cancelled : result.error().code;
}

std::string echo(std::string_view text) {
  const auto value = parse_json(text);
  if (!value.ok()) return value.error().message;
  return JsonWriter().value(*value).take();
}

TEST(Json, ReadsEveryKindOfValueInOrder) {
  EXPECT_EQ(echo(R"( {"b":[1,-2,2.5,true,false,null,"x"], "a":{}} )"),
            R"({"b":[1,-2,2.5,true,false,null,"x"],"a":{}})");
  EXPECT_EQ(echo("18446744073709551615"), "18446744073709551615");
  EXPECT_EQ(echo("[1e-400,-1e-400,123456789012345678901234567890]"), "[0,-0,1.2345678901234568e+29]");
  EXPECT_EQ(echo(R"("\u00e9\ud83d\ude00\n")"), "\"\u00e9\U0001F600\\n\"");
}

TEST(Json, ARepeatedKeyKeepsItsFirstPlaceAndLastValue) {
  EXPECT_EQ(echo(R"({"a":1,"b":2,"a":3})"), R"({"a":3,"b":2})");
}

TEST(Json, RefusesWhatIsNotOneText) {
  for (const char* text : {"", "{", "[1,]", "{\"a\"}", "nan", "NaN", "Infinity", "01", "1 2", "'a'", "[1] x",
                           "\"\x01\"", "\"\xff\"", "\"\\ud800\"", "tru", "1e400", "-1e999", "// c\n1"}) {
    EXPECT_EQ(code_of(text), ErrorCode::json_syntax) << text;
  }
}

TEST(Json, DepthIsBounded) {
  const auto nested = [](size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_TRUE(parse_json(nested(64)).ok());
  EXPECT_EQ(code_of(nested(65)), ErrorCode::json_depth);
  EXPECT_EQ(code_of(std::string(1'000'000, '[')), ErrorCode::json_depth);
  EXPECT_EQ(code_of("[[1]]", {.max_depth = 1}), ErrorCode::json_depth);
}

TEST(Json, SizeIsBounded) {
  EXPECT_EQ(code_of("[1,2,3]", {.max_bytes = 6}), ErrorCode::limit_exceeded);
}

TEST(Json, ManyEqualKeysTakeLinearTime) {
  std::string text = "{\"a\":0";
  for (int i = 0; i < 200'000; i++) text += ",\"k" + std::to_string(i) + "\":1,\"a\":2";
  const auto value = parse_json(text + "}");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->as<JsonObject>()->size(), 200'001u);
}

TEST(Json, RepeatsAreFoundAmongManyMembers) {
  std::string text = "{";
  for (int i = 0; i < 100; i++) text += "\"k" + std::to_string(i) + "\":0,";
  const auto value = parse_json(text + R"("k0":1,"k99":2,"k100":3,"k8":4})");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->as<JsonObject>()->size(), 101u);
  EXPECT_EQ(*value->find("k0")->as<int64_t>(), 1);
  EXPECT_EQ(*value->find("k8")->as<int64_t>(), 4);
  EXPECT_EQ(*value->find("k99")->as<int64_t>(), 2);
  EXPECT_EQ(*value->find("k100")->as<int64_t>(), 3);
}

// One request of 650,000 such keys took a worker a quarter of an hour.
TEST(Json, CollidingKeysTakeNoLongerThanOthers) {
  constexpr size_t kKeys = 10'000;
  const std::vector<std::string> keys = testing::colliding_keys(kKeys);
  if (!testing::all_collide(keys)) GTEST_SKIP() << "std::hash is another one than libstdc++'s";
  std::string hostile = "{", ordinary = "{";
  for (size_t i = 0; i < kKeys; i++) {
    const std::string_view comma = i == 0 ? "" : ",";
    hostile += fmt::format("{}\"{}\":1", comma, keys[i]);
    ordinary += fmt::format("{}\"{:016}\":1", comma, i);
  }
  hostile += "}", ordinary += "}";
  const auto parse = [&](const std::string& text) {
    return testing::cpu_seconds_of([&] { EXPECT_EQ(parse_json(text)->as<JsonObject>()->size(), kKeys); });
  };
  EXPECT_LT(parse(hostile), 8 * parse(ordinary));
}

TEST(Json, MembersOfAnObjectAreBounded) {
  EXPECT_TRUE(parse_json(R"({"a":1,"b":2,"a":3})", {.max_members = 2}).ok());
  EXPECT_TRUE(parse_json(R"([{"a":1,"b":2},{"a":1,"b":2}])", {.max_members = 2}).ok());
  const auto over = parse_json(R"({"a":1,"b":2,"c":3})", {.max_members = 2});
  ASSERT_FALSE(over.ok());
  EXPECT_EQ(over.error().code, ErrorCode::limit_exceeded);
  EXPECT_NE(over.error().message.find("more than 2 members"), std::string::npos) << over.error().message;
}

TEST(JsonWriter, IndentsWhenAsked) {
  JsonWriter w(JsonWriter::Style::pretty);
  w.begin_object()
      .key("a")
      .begin_array()
      .value(1)
      .value(2)
      .end_array()
      .key("b")
      .begin_object()
      .end_object()
      .end_object();
  EXPECT_EQ(w.take(), "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {}\n}\n");
}

TEST(JsonWriter, WritesOnlyValidJson) {
  EXPECT_EQ(JsonWriter().value(std::nan("")).take(), "null");
  EXPECT_EQ(JsonWriter().value(HUGE_VAL).take(), "null");
  EXPECT_EQ(JsonWriter().value(std::string_view("\xff\x00\"", 3)).take(), "\"\uFFFD\\u0000\\\"\"");
  EXPECT_EQ(JsonWriter().value(0.1f).take(), "0.1");
  EXPECT_EQ(JsonWriter().value(0.1).take(), "0.1");
}

TEST(JsonWriter, NumbersReadBackAsTheSameBits) {
  auto rng = testing::seeded_rng();
  for (int i = 0; i < 20'000; i++) {
    const uint64_t bits = rng();
    double number;
    static_assert(sizeof number == sizeof bits);
    std::memcpy(&number, &bits, sizeof bits);
    if (!std::isfinite(number)) continue;
    const std::string text = JsonWriter().value(number).take();
    const auto back = parse_json(text);
    ASSERT_TRUE(back.ok()) << text;
    const double* as_double = back->as<double>();
    if (text.find_first_of(".e") == std::string::npos) continue;  // read back as an integer
    ASSERT_TRUE(as_double) << text;
    EXPECT_EQ(*as_double, number) << text;
  }
}

}  // namespace
}  // namespace rocmforge
