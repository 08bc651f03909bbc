// Every line of the reference's texts, for eight real vocabularies. Skips where the reference material is absent.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <charconv>

#include "gguf/reader.h"
#include "support/support.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge::tokenizer {
namespace {

using testing::read_text;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    end = end == text.npos ? text.size() : end + 1;
    lines.push_back(text.substr(at, end - at));
    at = end;
  }
  return lines;
}

std::string joined(std::span<const TokenId> ids) {
  std::string out;
  for (const TokenId id : ids) out += fmt::format("{}{}", out.empty() ? "" : " ", id.value);
  return out;
}

// "1 2 3" however it is spaced, and "" for an empty list.
std::string normalized_ids(std::string_view line) {
  std::string out;
  for (size_t at = 0; at < line.size();) {
    const size_t end = std::min(line.find_first_of(" \n", at), line.size());
    if (end > at) out += fmt::format("{}{}", out.empty() ? "" : " ", line.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

class Golden : public ::testing::TestWithParam<const char*> {
 protected:
  static std::string path_of(const std::string& name) { return testing::shared_path("goldens/tokenizers/" + name); }

  void expect_equal(const std::string& text, const std::string& expected_line) {
    const auto ids = tokenizer_->encode(text);
    ASSERT_TRUE(ids.ok()) << ids.error().message;
    EXPECT_EQ(joined(*ids), normalized_ids(expected_line)) << "text: '" << text << "'";
  }

  void SetUp() override {
    const std::string path = path_of(std::string(GetParam()) + ".gguf");
    if (path.empty()) GTEST_SKIP() << "reference material 'goldens/tokenizers' is not beside the checkout";
    auto file = gguf::GgufFile::open(path);
    ASSERT_TRUE(file.ok()) << file.error().message;
    auto tokenizer = Tokenizer::load(file->metadata());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    tokenizer_.emplace(std::move(*tokenizer));
  }

  std::optional<Tokenizer> tokenizer_;
};

TEST_P(Golden, EqualsTheReferenceOnItsTestTexts) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  const std::string input = read_text(path_of(std::string(GetParam()) + ".inp"));
  const auto expected = lines_of(read_text(path_of(std::string(GetParam()) + ".out")));
  size_t at = 0, n = 0;
  for (size_t end; (end = input.find(separator, at)) != input.npos; at = end + separator.size()) {
    ASSERT_LT(n, expected.size());
    expect_equal(input.substr(at, end - at), expected[n++]);
  }
  EXPECT_EQ(n, expected.size());
}

TEST_P(Golden, EqualsTheReferenceOnEveryMixedLine) {
  const auto input = lines_of(read_text(path_of("mixed.txt")));
  const auto expected = lines_of(read_text(path_of(std::string(GetParam()) + ".mixed.out")));
  ASSERT_EQ(input.size(), expected.size());
  for (size_t i = 0; i < input.size(); i++) expect_equal(input[i], expected[i]);
}

TEST_P(Golden, DecodesEveryMixedLineToItself) {
  if (tokenizer_->vocabulary().kind == Kind::wpm) GTEST_SKIP() << "BERT's vocabulary does not keep case and space";
  for (const std::string& line : lines_of(read_text(path_of("mixed.txt")))) {
    const auto ids = tokenizer_->encode(line);
    ASSERT_TRUE(ids.ok()) << ids.error().message;
    EXPECT_EQ(*tokenizer_->decode(*ids), line);
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, Golden,
                         ::testing::Values("bert-bge", "deepseek-coder", "gemma-2", "gpt-2", "llama-bpe", "llama-spm",
                                           "phi-3", "qwen2"),
                         [](const auto& vocabulary) {
                           std::string name = vocabulary.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace rocmforge::tokenizer
