#include "gguf/overrides.h"

#include <gtest/gtest.h>

#include "gguf/reader.h"
#include "support/support.h"

namespace rocmforge::gguf {
namespace {

Metadata story() {
  return GgufFile::open(rocmforge::testing::source_path("models/story-q4_k_m.gguf")).value().metadata();
}

TEST(Override, IsReadByItsType) {
  const std::vector<Override> all = {*parse_override("a=int:-5"), *parse_override("b=float:0.25"),
                                     *parse_override("c=bool:true"), *parse_override("d=str:x=y:z"),
                                     *parse_override("e=str:")};
  const Metadata metadata = *with_overrides({}, all);
  EXPECT_EQ(metadata.find("a")->as_i64(), -5);
  EXPECT_EQ(*metadata.f32("b"), 0.25f);
  EXPECT_TRUE(*metadata.boolean("c"));
  EXPECT_EQ(*metadata.string("d"), "x=y:z");
  EXPECT_EQ(*metadata.string("e"), "");
}

TEST(Override, OfAnotherFormIsRefused) {
  for (const char* bad : {"", "a", "=int:1", "a=1", "a=int", "a=int:", "a=int:1.5", "a=int:1x", "a=float:x",
                          "a=float:inf", "a=float:nan", "a=bool:1", "a=u8:1", "a=int:99999999999999999999"}) {
    const auto parsed = parse_override(bad);
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_EQ(parsed.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(parsed.error().message.find("KEY=TYPE:VALUE"), std::string::npos);
  }
}

TEST(Override, StandsInForTheFilesValueAndLeavesTheOthers) {
  const Metadata own = story();
  const std::string architecture(*own.string("general.architecture"));
  const Metadata changed = *with_overrides(own, std::vector<Override>{*parse_override(".rope.freq_base=float:1"),
                                                                      *parse_override(".rope.freq_base=float:500000"),
                                                                      *parse_override("general.name=str:another")});
  EXPECT_EQ(*changed.f32(architecture + ".rope.freq_base"), 500000.0f) << "the last counts";
  EXPECT_EQ(*changed.string("general.name"), "another");
  for (const Metadata::Entry& entry : own.entries()) {
    const Value* value = changed.find(entry.key);
    ASSERT_TRUE(value) << entry.key;
    EXPECT_EQ(value->type(), entry.key == "general.name" ? ValueType::string : entry.value.type()) << entry.key;
    if (entry.key == "general.name" || entry.key == architecture + ".rope.freq_base") continue;
    EXPECT_TRUE(std::ranges::equal(value->bytes(), entry.value.bytes())) << entry.key;
    EXPECT_EQ(value->n_elements(), entry.value.n_elements());
  }
}

TEST(Override, WithoutAnArchitectureCannotStandForOne) {
  const auto got = with_overrides({}, std::vector<Override>{*parse_override(".rope.freq_base=float:1")});
  EXPECT_EQ(got.error().code, ErrorCode::gguf_key_missing);
}

}  // namespace
}  // namespace rocmforge::gguf
