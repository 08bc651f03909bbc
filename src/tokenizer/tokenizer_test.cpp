#include "tokenizer/tokenizer.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/utf8.h"
#include "gguf/reader.h"
#include "support/support.h"
#include "tokenizer/vocabulary_builder.h"

namespace rocmforge::tokenizer {
namespace {

Tokenizer tokenizer_of(const MetadataBuilder& metadata) {
  auto tokenizer = Tokenizer::load(metadata.build());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return *std::move(tokenizer);
}

Tokenizer story() {
  const auto file = gguf::GgufFile::open(testing::data_path("tokenizer/story-vocab.gguf"));
  EXPECT_TRUE(file.ok()) << file.error().message;
  auto tokenizer = Tokenizer::load(file->metadata());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return *std::move(tokenizer);
}

std::vector<TokenId> ids_of(const Tokenizer& t, std::string_view text, const EncodeOptions& options = {}) {
  const auto ids = t.encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.error().message;
  return *ids;
}

// The tokens as the vocabulary spells them, separated by bars.
std::string spelled(const Tokenizer& t, std::string_view text, const EncodeOptions& options = {}) {
  std::string out;
  for (const TokenId id : ids_of(t, text, options)) {
    out += fmt::format("{}{}", out.empty() ? "" : "|", t.vocabulary().text(id));
  }
  return out;
}

std::string round_trip(const Tokenizer& t, std::string_view text) {
  const auto decoded = t.decode(ids_of(t, text));
  EXPECT_TRUE(decoded.ok()) << decoded.error().message;
  return *decoded;
}

TEST(SpmTokenizer, JoinsByScoreAndFallsBackToBytes) {
  const Tokenizer t = tokenizer_of(small_spm().finish("llama"));
  EXPECT_EQ(spelled(t, ""), "");
  EXPECT_EQ(spelled(t, "hello world"), "▁hello|▁world");
  EXPECT_EQ(spelled(t, "hellohe"), "▁hello|he");
  EXPECT_EQ(spelled(t, "é"), "▁|é");
  EXPECT_EQ(spelled(t, "z"), "▁|<0x7A>");
  EXPECT_EQ(spelled(t, "中"), "▁|<0xE4>|<0xB8>|<0xAD>");
  EXPECT_EQ(spelled(t, "\xFF"), "▁|<0xFF>");  // not UTF-8, kept
  EXPECT_EQ(spelled(t, "   "), "▁▁▁▁");
  EXPECT_EQ(spelled(t, "aaaaaaa"), "▁|aaaa|aa|a");
}

TEST(SpmTokenizer, WithoutByteTokensHasOneUnknownPerCharacter) {
  VocabularyBuilder v;
  v.add("<unk>", 2).add("a");
  const Tokenizer t = tokenizer_of(v.finish("llama").set_bool("tokenizer.ggml.add_space_prefix", false));
  EXPECT_EQ(spelled(t, "a中a"), "a|<unk>|a");
}

TEST(BpeTokenizer, JoinsByTheOrderOfMerges) {
  const Tokenizer t = tokenizer_of(small_bpe().finish("gpt2"));
  EXPECT_EQ(spelled(t, ""), "");
  EXPECT_EQ(spelled(t, "hello world"), "hello|Ġworld");
  EXPECT_EQ(spelled(t, "hellold"), "hello|ld");
  EXPECT_EQ(spelled(t, "   "), "ĠĠ|Ġ");
  EXPECT_EQ(spelled(t, "     x"), "ĠĠĠĠ|Ġ|x") << "the last space belongs to the word";
  EXPECT_EQ(spelled(t, "1234"), "123|4");
  EXPECT_EQ(spelled(t, "é中"), "Ã©|ä|¸|Ń");
  EXPECT_EQ(spelled(t, "a\xFF"), "a|ï|¿|½") << "invalid UTF-8 is read as U+FFFD";
}

TEST(BpeTokenizer, TakesAWholeWordBeforeItsMergesWhereTheModelDoes) {
  const auto with_word = [](const char* pre) {
    VocabularyBuilder v = small_bpe();
    v.add("hellx").metadata.set_text("tokenizer.ggml.pre", pre);
    return tokenizer_of(v.finish("gpt2"));
  };
  EXPECT_EQ(spelled(with_word("gpt-2"), "hellx"), "hell|x");
  EXPECT_EQ(spelled(with_word("llama-bpe"), "hellx"), "hellx");
}

TEST(BpeTokenizer, LeavesOutBytesThatNoTokenSpells) {
  VocabularyBuilder v;
  v.add("a").add("b");
  const Tokenizer t = tokenizer_of(v.finish("gpt2").set_text("tokenizer.ggml.pre", "gpt-2"));
  EXPECT_EQ(spelled(t, "axb"), "a|b");
}

TEST(BpeTokenizer, OfGemma4WorksOnCharacters) {
  const Tokenizer t = tokenizer_of(small_gemma4().finish("gemma4"));
  EXPECT_EQ(spelled(t, "hello hello"), "hello|▁hello");
  EXPECT_EQ(spelled(t, "  é"), "▁▁|é");
  EXPECT_EQ(spelled(t, "z中"), "<0x7A>|<0xE4>|<0xB8>|<0xAD>");
  EXPECT_EQ(spelled(t, "o\n\no"), "o|\n\n|o") << "a run of newlines is one token where it is in the vocabulary";
  EXPECT_EQ(spelled(t, "\n\n\n"), "\n|\n|\n");
  EXPECT_EQ(spelled(t, "o", {.add_bos = true}), "<bos>|o");
}

TEST(BpeTokenizer, OnWhiteSpaceDropsTheSpace) {
  VocabularyBuilder v;
  for (const char* piece : {"h", "e", "l", "o"}) v.add(piece);
  v.merge("h", "e").metadata.set_text("tokenizer.ggml.pre", "whitespace");
  EXPECT_EQ(spelled(tokenizer_of(v.finish("whitespace")), " he  lo\nHE"), "he|l|o");
  v.metadata.set_bool("tokenizer.ggml.normalizer.lowercase", true);
  EXPECT_EQ(spelled(tokenizer_of(v.finish("whitespace")), " he  lo\nHE"), "he|l|o|he");
}

TEST(WpmTokenizer, SpellsWordsWithTheLongestTokens) {
  const Tokenizer t = tokenizer_of(small_wpm().finish("bert"));
  EXPECT_EQ(spelled(t, "Hello, wörld!"), "▁hello|▁,|▁wor|ld|▁!");
  EXPECT_EQ(spelled(t, "unaffable"), "▁un|aff|able");
  EXPECT_EQ(spelled(t, "unaffablex hello"), "[UNK]|▁hello") << "a word is spelled whole or not at all";
  EXPECT_EQ(spelled(t, "中a"), "▁中|▁a");
  EXPECT_EQ(spelled(t, "hel\u200Blo\u00A0hello"), "▁hello|▁hello") << "format characters vanish, space is space";
  EXPECT_EQ(ids_of(t, std::string(100, 'a')).size(), 100u);
  EXPECT_EQ(spelled(t, std::string(101, 'a')), "[UNK]") << "BERT's limit";
  EXPECT_EQ(spelled(t, "hello", {.add_bos = true, .add_eos = true}), "[CLS]|▁hello|[SEP]");
  EXPECT_EQ(round_trip(t, "Hello,  world"), "hello , world");
}

TEST(Tokenizer, ParsesSpecialTokensOnlyWhenAsked) {
  const Tokenizer bpe = tokenizer_of(small_bpe().finish("gpt2"));
  EXPECT_EQ(spelled(bpe, "<|im_start|>hello<|im_end|>", {.parse_special = true}), "<|im_start|>|hello|<|im_end|>");
  EXPECT_EQ(spelled(bpe, "<|im_end|>"), "<|||i|m|_|e|n|d|||>");
  EXPECT_EQ(spelled(bpe, "a<tool_call>a"), "a|<tool_call>|a") << "user-defined tokens are always found";
  const Tokenizer spm = tokenizer_of(small_spm().finish("llama"));
  EXPECT_EQ(spelled(spm, "<s>hello</s>hello", {.parse_special = true}), "<s>|▁hello|</s>|▁hello");
  EXPECT_EQ(spelled(spm, "<s>"), "▁|<|s|>");
}

TEST(Tokenizer, FindsTheLongestSpecialTokenAtTheLeftmostPlace) {
  VocabularyBuilder v = small_bpe();
  v.add("<a>", 4).add("<a><b>", 4).add("b><", 4);
  const Tokenizer t = tokenizer_of(v.finish("gpt2"));
  EXPECT_EQ(spelled(t, "<a><b><a><a"), "<a><b>|<a>|<|a");
}

// V9: whatever a user writes, no control token comes of it.
void expect_no_control_tokens(const Tokenizer& t) {
  const Vocabulary& v = t.vocabulary();
  for (size_t i = 0; i < v.size(); i++) {
    const std::string name(v.tokens[i]);
    if (v.is_text(static_cast<int32_t>(i)) || !is_valid_utf8(name)) continue;
    for (const std::string& text : {name, "x" + name, name + name, " " + name}) {
      for (const TokenId id : ids_of(t, text)) {
        const bool is_plain = v.is_text(id.value) || v.type(id) == TokenType::byte || id == v.special.unk;
        EXPECT_TRUE(is_plain) << "'" << text << "' became '" << v.text(id) << "'";
      }
    }
  }
}

TEST(Tokenizer, NeverMakesControlTokensOfPlainText) {
  expect_no_control_tokens(story());
  expect_no_control_tokens(tokenizer_of(small_spm().finish("llama")));
  expect_no_control_tokens(tokenizer_of(small_bpe().finish("gpt2")));
  expect_no_control_tokens(tokenizer_of(small_gemma4().finish("gemma4")));
  expect_no_control_tokens(tokenizer_of(small_wpm().finish("bert")));
  // Tokens that merging, scores and whole words would reach.
  VocabularyBuilder merged = small_bpe();
  merged.merge("<", "/").merge("</", "s").merge("</s", ">").add("EOT", 3);
  expect_no_control_tokens(tokenizer_of(merged.finish("gpt2").set_text("tokenizer.ggml.pre", "llama-bpe")));
  VocabularyBuilder scored = small_spm();
  scored.add("<s", 1, 5).add("/s", 1, 5).add("</", 1, 6);
  expect_no_control_tokens(tokenizer_of(scored.finish("llama")));
}

TEST(Tokenizer, AddsExactlyOneBos) {
  const Tokenizer t = tokenizer_of(small_spm().finish("llama"));
  EXPECT_EQ(spelled(t, "hello", {.add_bos = true}), "<s>|▁hello");
  EXPECT_EQ(spelled(t, "", {.add_bos = true}), "<s>");
  EXPECT_EQ(spelled(t, "<s>hello", {.parse_special = true, .add_bos = true}), "<s>|▁hello");
  EXPECT_EQ(spelled(t, "<s>hello", {.parse_special = true}), "<s>|▁hello");
  EXPECT_EQ(spelled(t, "<s>hello", {.add_bos = true}), "<s>|▁|<|s|>|hello") << "as text it is no BOS";
  EXPECT_EQ(spelled(t, "hello<s>", {.parse_special = true, .add_bos = true}), "<s>|▁hello|<s>");
  const Tokenizer without = tokenizer_of(small_spm().finish("llama").set_bool("tokenizer.ggml.add_bos_token", false));
  EXPECT_EQ(spelled(without, "hello", {.add_bos = true}), "▁hello") << "a model that wants none gets none";
  EXPECT_EQ(spelled(without, "<s>hello", {.parse_special = true, .add_bos = true}), "<s>|▁hello");
}

TEST(Tokenizer, AddsOneEosWhereTheModelWantsIt) {
  const Tokenizer t = tokenizer_of(small_spm().finish("llama").set_bool("tokenizer.ggml.add_eos_token", true));
  EXPECT_EQ(spelled(t, "hello", {.add_eos = true}), "▁hello|</s>");
  EXPECT_EQ(spelled(t, "hello</s>", {.parse_special = true, .add_eos = true}), "▁hello|</s>");
  EXPECT_EQ(spelled(tokenizer_of(small_spm().finish("llama")), "hello", {.add_eos = true}), "▁hello");
}

TEST(Tokenizer, StripsSpaceAroundTheTokensThatSwallowIt) {
  const EncodeOptions parse{.parse_special = true};
  EXPECT_EQ(spelled(tokenizer_of(small_spm().finish("llama")), "<|im_end|>\n hello", parse),
            "<|im_end|>|▁|<0x0A>|▁hello");
  const Tokenizer phi = tokenizer_of(small_spm().finish("llama").set_text("general.name", "Phi-3 mini"));
  EXPECT_EQ(spelled(phi, "<|im_end|>\n hello", parse), "<|im_end|>|▁hello");
  EXPECT_EQ(spelled(phi, "<|im_end|> \n", parse), "<|im_end|>");
  EXPECT_EQ(spelled(phi, "<s> hello", parse), "<s>|▁|▁hello") << "not <s>";
  VocabularyBuilder masked = small_bpe();
  masked.add("<mask>", 3);
  const Tokenizer jina = tokenizer_of(masked.finish("gpt2").set_text("tokenizer.ggml.pre", "jina-v2-de"));
  EXPECT_EQ(spelled(jina, "hello \t<mask> a", parse), "hello|<mask>|Ġ|a");
  EXPECT_EQ(spelled(jina, "  <mask>", parse), "<mask>");
}

TEST(Tokenizer, DecodesToTheTextAndHidesControlTokens) {
  const Tokenizer t = tokenizer_of(small_spm().finish("llama"));
  const auto ids = ids_of(t, "<s>hello world<|im_end|>", {.parse_special = true});
  EXPECT_EQ(*t.decode(ids), "hello world");
  EXPECT_EQ(*t.decode(ids, true), "<s>hello world<|im_end|>");
  EXPECT_TRUE(t.is_end_of_text(*t.find("<|im_end|>")));
  EXPECT_TRUE(t.is_end_of_text(*t.eos()));
  EXPECT_FALSE(t.is_end_of_text(*t.bos()));
  EXPECT_EQ(t.token_text(*t.find("▁hello")), " hello");
  EXPECT_EQ(t.token_text(*t.find("<0x0A>")), "\n");
  const Tokenizer bpe = tokenizer_of(small_bpe().add("¿…plain…").finish("gpt2"));
  EXPECT_EQ(bpe.token_text(*bpe.find("Ġworld")), " world");
  EXPECT_EQ(bpe.token_text(*bpe.find("¿…plain…")), "¿…plain…") << "not in GPT-2's spelling: as it stands";
}

TEST(Tokenizer, ShowsTheFrameOfMessagesButNeverParsesItUnasked) {
  const Tokenizer t = tokenizer_of(small_bpe().add("<|channel|>", 3).finish("gpt2"));
  const TokenId channel = *t.find("<|channel|>");
  EXPECT_EQ(*t.decode(std::vector{channel}), "<|channel|>");
  EXPECT_EQ(spelled(t, "<|channel|>").find("<|channel|>"), std::string::npos);
}

TEST(Tokenizer, RefusesIdsThatAreNoTokens) {
  const Tokenizer t = tokenizer_of(small_spm().finish("llama"));
  for (const int32_t bad : {-1, static_cast<int32_t>(t.n_tokens()), INT32_MAX, INT32_MIN}) {
    EXPECT_FALSE(t.contains(TokenId(bad)));
    const auto decoded = t.decode(std::vector{TokenId(1), TokenId(bad)});
    ASSERT_FALSE(decoded.ok());
    EXPECT_EQ(decoded.error().code, ErrorCode::tokenizer_input);
  }
}

// V2: the size alone decides, before a byte is read.
TEST(Tokenizer, RefusesTextBeyondItsLimit) {
  const Tokenizer t = tokenizer_of(small_spm().finish("llama"));
  const char byte = 'a';
  for (const size_t n : {Tokenizer::kMaxTextBytes + 1, size_t{1} << 32, size_t{1} << 62}) {
    const auto ids = t.encode(std::string_view(&byte, n));
    ASSERT_FALSE(ids.ok());
    EXPECT_EQ(ids.error().code, ErrorCode::limit_exceeded);
  }
}

TEST(Tokenizer, EqualsTheCommittedIdsOfTheStoryVocabulary) {
  const Tokenizer t = story();
  const std::string cases = testing::read_text(testing::data_path("tokenizer/story.ids"));
  size_t n = 0;
  for (size_t at = 0; at < cases.size(); n++) {  // lines: ids, a tab, the text with \n written out
    const size_t tab = cases.find('\t', at), end = cases.find('\n', at);
    ASSERT_TRUE(tab < end && end != cases.npos);
    std::string text = cases.substr(tab + 1, end - tab - 1);
    for (size_t i; (i = text.find("\\n")) != text.npos;) text.replace(i, 2, "\n");
    std::vector<int32_t> ids;
    for (const TokenId id : ids_of(t, text)) ids.push_back(id.value);
    EXPECT_EQ(fmt::format("{}", fmt::join(ids, " ")), cases.substr(at, tab - at)) << text;
    at = end + 1;
  }
  EXPECT_GT(n, 50u);
}

std::string random_text(std::mt19937_64& rng) {
  const char* const parts[] = {"a",      "e", "h",  "hello", " world", " ",  "  ", "\n",     "\t",
                               "'s",     "1", "23", "é",     "中",     "文", "한", "😀",     "\u0301",
                               "\u00A0", "<", "|",  ">",     "!",      ".",  "ß",  "\u200D", "X"};
  std::string text;
  for (uint64_t n = rng() % 40; n > 0; n--) text += parts[rng() % std::size(parts)];
  return text;
}

TEST(Tokenizer, DecodesWhatItEncoded) {
  auto rng = testing::seeded_rng();
  const Tokenizer tokenizers[] = {story(), tokenizer_of(small_spm().finish("llama")),
                                  tokenizer_of(small_bpe().finish("gpt2")),
                                  tokenizer_of(small_gemma4().finish("gemma4"))};
  for (int i = 0; i < 2000; i++) {
    const std::string text = random_text(rng);
    for (const Tokenizer& t : tokenizers) ASSERT_EQ(round_trip(t, text), text);
  }
}

TEST(Tokenizer, DecodesWhatItEncodedUnderEveryPreTokenizer) {
  auto rng = testing::seeded_rng();
  for (const NamedRules& named : all_pre_tokenizers()) {
    if (!named.rules->byte_level) continue;
    const Tokenizer t = tokenizer_of(small_bpe().finish("gpt2").set_text("tokenizer.ggml.pre", named.name));
    for (int i = 0; i < 100; i++) {
      const std::string text = random_text(rng);
      ASSERT_EQ(round_trip(t, text), text) << named.name;
    }
  }
}

// A long text goes through the word cache, a short one does not.
TEST(Tokenizer, GivesWordsTheSameTokensInLongTextsAsAlone) {
  auto rng = testing::seeded_rng();
  const Tokenizer t = tokenizer_of(small_bpe().finish("gpt2").set_text("tokenizer.ggml.pre", "deepseek-coder"));
  std::string text;
  std::vector<TokenId> expected;
  for (int i = 0; i < 400; i++) {
    const std::string line = random_text(rng) + "<tool_call>";  // cuts the text, whatever stands around it
    text += line;
    const auto ids = ids_of(t, line);
    expected.insert(expected.end(), ids.begin(), ids.end());
  }
  EXPECT_EQ(ids_of(t, text), expected);
}

}  // namespace
}  // namespace rocmforge::tokenizer
