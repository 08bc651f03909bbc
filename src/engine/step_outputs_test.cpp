#include "engine/step_outputs.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "support/loaded_model.h"
#include "support/support.h"
#include "support/tiny_model.h"

namespace rocmforge {
namespace {

using testing::LoadedModel;
using testing::TempDir;
using testing::TinyModel;

// What sampling says of a tiny model whose named weights begin with `value`.
Result<TokenId> token_with(std::initializer_list<const char*> names, float value) {
  const TempDir dir;
  TinyModel().write(dir.file("m.gguf"));
  {
    const auto file = gguf::GgufFile::open(dir.file("m.gguf"));
    EXPECT_TRUE(file.ok());
    std::fstream bytes(dir.file("m.gguf"), std::ios::in | std::ios::out | std::ios::binary);
    for (const char* name : names) {
      const gguf::TensorInfo* tensor = file->find_tensor(name);
      EXPECT_TRUE(tensor) << name;
      bytes.seekp(static_cast<std::streamoff>(tensor->offset));
      for (uint64_t i = 0; i < tensor->n_elements; i++)
        bytes.write(reinterpret_cast<const char*>(&value), sizeof(value));
    }
  }
  const LoadedModel model = LoadedModel::open(dir.file("m.gguf"));
  Session session = model.session();
  StepOutputs* outputs = TRY(session.advance(testing::some_tokens(3, 96)));
  return TRY(outputs->choose(0, {}, session.tokens(), 0.5)).token;
}

void expect_named(const Result<TokenId>& token, std::string_view cause) {
  ASSERT_FALSE(token.ok()) << cause;
  EXPECT_EQ(token.error().code, ErrorCode::model_not_finite);
  EXPECT_NE(token.error().message.find(cause), std::string::npos) << token.error().message;
}

TEST(StepOutputs, ANumberThatIsNotFiniteIsTracedToItsWeight) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  for (const char* name : {"token_embd.weight", "blk.1.ffn_up.weight", "blk.2.attn_norm.weight", "output.weight"}) {
    for (const float bad : {kNan, kInf}) expect_named(token_with({name}, bad), std::string("tensor '") + name + "'");
  }
}

TEST(StepOutputs, ANumberThatGrewOutOfRangeIsNoWeights) {
  expect_named(token_with({"output_norm.weight", "output.weight"}, 1e30f), "no weight is NaN or infinite");
}

TEST(StepOutputs, FiniteNumbersNeedNoCause) {
  EXPECT_TRUE(token_with({}, 0).ok());
}

}  // namespace
}  // namespace rocmforge
