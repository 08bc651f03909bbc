#include "tokenizer/pre_tokenizer_tables.h"

// The patterns are those the models were trained with (their tokenizer.json), where llama.cpp at b21e4de quotes them,
// and llama.cpp's own otherwise. Changes, none of which alters a match:
//   - Kimi's set differences are written as one negated class;
//   - a branch that could rescan a run from each of its characters is guarded or possessive, so that time stays linear;
//   - groups of three digits, quadratic as a lookahead, are a kind of step.

namespace rocmforge::tokenizer {
namespace {

#define RF_CONTRACTIONS R"re((?i:'s|'t|'re|'ve|'m|'ll|'d))re"
// What ends most patterns: newlines with the space before them, space up to the last one before a word, any other
// space.
#define RF_SPACE R"re(|\s*[\r\n]+|\s+(?!\S)|\s+)re"

constexpr std::string_view kGpt2Words =
    R"re('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)re";

// Llama 3 and its relatives differ in how many digits stay together.
#define RF_LLAMA3(numbers) \
  RF_CONTRACTIONS R"re(|[^\r\n\p{L}\p{N}]?\p{L}+|)re" numbers R"re(| ?[^\s\p{L}\p{N}]+[\r\n]*)re"
constexpr std::string_view kLlama3Words = RF_LLAMA3(R"re(\p{N}{1,3})re") RF_SPACE;
constexpr std::string_view kQwen2Words = RF_LLAMA3(R"re(\p{N})re") RF_SPACE;
constexpr std::string_view kMiniCpm5Words = RF_LLAMA3(R"re(\p{N}+)re") RF_SPACE;
// Inside a run of space, only its start can begin a match that reaches a newline.
constexpr std::string_view kJais2Words = RF_LLAMA3(
    R"re(\p{N}{1,3})re") R"re(|(?<![^\S\r\n])\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S))re"
                         R"re(|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})re";
constexpr std::string_view kQwen35Words =
    RF_CONTRACTIONS R"re(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)re" RF_SPACE;
constexpr std::string_view kBailingWords =
    R"re('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)re"
    R"re(|\s*[\r\n]|\s+(?!\S)|\s+)re";
constexpr std::string_view kSeedCoderWords =
    RF_CONTRACTIONS R"re(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+)re" RF_SPACE;
constexpr std::string_view kExaoneMoeWords =
    RF_CONTRACTIONS R"re(|[^\r\n\p{L}\p{N}]?\p{L}(?:[\p{L}\p{M}]| \p{L})*+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?)re"
                    R"re(|\s*[\r\n]|\s+(?!\S)|\s+)re";

// GPT-4o and its relatives: upper case before lower case, contractions at the word's end.
#define RF_CASED_WORDS(upper, lower, end) \
  R"re([^\r\n\p{L}\p{N}]?)re" upper "*" lower "+" end R"re(|[^\r\n\p{L}\p{N}]?)re" upper "+" lower "*" end
#define RF_UPPER R"re([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])re"
#define RF_LOWER R"re([\p{Ll}\p{Lm}\p{Lo}\p{M}])re"
constexpr std::string_view kGpt4oWords =
    RF_CASED_WORDS(RF_UPPER, RF_LOWER, RF_CONTRACTIONS "?") R"re(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)re" RF_SPACE;
constexpr std::string_view kYoutuWords =
    RF_CASED_WORDS(RF_UPPER, RF_LOWER, RF_CONTRACTIONS "?") R"re(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)re" RF_SPACE;
constexpr std::string_view kTekkenWords =
    RF_CASED_WORDS(RF_UPPER, RF_LOWER, "") R"re(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)re" RF_SPACE;
// The same sets less Han, by what they leave out.
#define RF_UPPER_NOT_HAN R"re([^\p{C}\p{N}\p{P}\p{S}\p{Z}\p{Ll}\p{sc:Han}])re"
#define RF_LOWER_NOT_HAN R"re([^\p{C}\p{N}\p{P}\p{S}\p{Z}\p{Lu}\p{Lt}\p{sc:Han}])re"
constexpr std::string_view kKimiK2Words = R"re(\p{sc:Han}+|)re" RF_CASED_WORDS(
    RF_UPPER_NOT_HAN, RF_LOWER_NOT_HAN, RF_CONTRACTIONS "?") R"re(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)re" RF_SPACE;

constexpr std::string_view kDeepSeek3Words =
    R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)re"
    R"re(| ?[\p{P}\p{S}]+[\r\n]*)re" RF_SPACE;
constexpr std::string_view kDeepSeekLetters =
    R"re(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})re"
    R"re(\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-)re"
    R"re(\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD})re"
    R"re(\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15})re"
    R"re(\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-)re"
    R"re(\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3})re"
    R"re(\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113})re"
    R"re(\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-)re"
    R"re(\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE})re"
    R"re(\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E})re"
    R"re(\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F})re"
    R"re(\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900})re"
    R"re(-\x{1E943}]+)re";
constexpr std::string_view kDeepSeekPunctuation =
    R"re(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)re";
constexpr std::string_view kDeepSeekCjk = R"re([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)re";
constexpr std::string_view kHanAndKana = R"re([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)re";
constexpr std::string_view kYoutuCjk =
    R"re([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A})re"
    R"re(\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-)re"
    R"re(\x{309F}\x{30A0}-\x{30FF}]+)re";
constexpr std::string_view kAfmoeAsian =
    R"re([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{8C48}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F})re"
    R"re(\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F})re"
    R"re(\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)re";
constexpr std::string_view kBloomWords = R"re( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)re";

constexpr std::string_view kLines = R"re([^\n]+|[\n]+)re";
constexpr std::string_view kNumber = R"re(\p{N})re";
constexpr std::string_view kNumbers = R"re(\p{N}+)re";
constexpr std::string_view kThreeNumbers = R"re(\p{N}{1,3})re";
constexpr std::string_view kThreeDigits = R"re([0-9][0-9][0-9])re";
constexpr std::string_view kNewline = R"re([\r\n])re";

constexpr SplitStep kDefault[] = {{R"re([\p{P}\$\+<=>\^~\|]+)re"}, {kGpt2Words}, {kNumbers}, {kThreeDigits}};
constexpr SplitStep kGpt2[] = {{kGpt2Words}};
constexpr SplitStep kStarCoder[] = {{kNumber}, {kGpt2Words}};
constexpr SplitStep kFalcon[] = {{R"re([\p{P}\$\+<=>\^~\|`]+)re"}, {kGpt2Words}, {kThreeDigits}};
constexpr SplitStep kLlama3[] = {{kLlama3Words}};
constexpr SplitStep kQwen2[] = {{kQwen2Words}};
constexpr SplitStep kQwen35[] = {{kQwen35Words}};
constexpr SplitStep kJais2[] = {{kJais2Words}};
constexpr SplitStep kMiniCpm5[] = {{kThreeNumbers}, {kMiniCpm5Words}};
constexpr SplitStep kBailing[] = {{kBailingWords}};
constexpr SplitStep kSeedCoder[] = {{kSeedCoderWords}};
constexpr SplitStep kExaoneMoe[] = {{kExaoneMoeWords}};
constexpr SplitStep kGpt4o[] = {{kGpt4oWords}};
constexpr SplitStep kTinyAya[] = {{"", SplitStep::Kind::digit_groups_at_word_end}, {kGpt4oWords}};
constexpr SplitStep kTekken[] = {{kTekkenWords}};
constexpr SplitStep kYoutu[] = {{kYoutuCjk}, {kYoutuWords}};
constexpr SplitStep kKimiK2[] = {{kKimiK2Words}};
constexpr SplitStep kSuperBpe[] = {{kNumbers}, {"", SplitStep::Kind::digit_groups}};
constexpr SplitStep kDeepSeekLlm[] = {
    {kNewline}, {kDeepSeekLetters}, {kDeepSeekPunctuation}, {R"re((?<!\s)\s++\z)re"}, {kDeepSeekCjk}, {kNumbers}};
constexpr SplitStep kDeepSeekCoder[] = {
    {kNewline}, {R"re(\s?\p{L}+)re"}, {R"re(\s?\p{P}+)re"}, {kDeepSeekCjk}, {kNumber}};
constexpr SplitStep kDeepSeek3[] = {{kThreeNumbers}, {kHanAndKana}, {kDeepSeek3Words}};
constexpr SplitStep kAfmoe[] = {{"", SplitStep::Kind::digit_groups}, {kAfmoeAsian}, {kDeepSeek3Words}};
constexpr SplitStep kBloom[] = {{kBloomWords}};
constexpr SplitStep kViking[] = {{kBloomWords}, {kNumber}};
constexpr SplitStep kLaguna[] = {{kLines}, {kQwen2Words}};
constexpr SplitStep kWholeLines[] = {{kLines}};
constexpr SplitStep kNotSpace[] = {{R"re(\S+)re"}};
constexpr SplitStep kChameleon[] = {{R"re(<sentinel:[0-9]+>)re"},    {R"re((?:IMGIMG)[A-I]{1,4}Z)re"},
                                    {R"re([\t\n]|    |  )re"},       {kNumber},
                                    {R"re([\p{P}!-/:-@\[-`{-~])re"}, {kGpt2Words}};

constexpr PreTokenizerRules kDefaultRules{.steps = kDefault};
constexpr PreTokenizerRules kGpt2Rules{.steps = kGpt2};
constexpr PreTokenizerRules kStarCoderRules{.steps = kStarCoder};
constexpr PreTokenizerRules kFalconRules{.steps = kFalcon};
constexpr PreTokenizerRules kLlamaBpeRules{.steps = kLlama3, .ignore_merges = true, .add_bos = true};
constexpr PreTokenizerRules kDbrxRules{.steps = kLlama3};
constexpr PreTokenizerRules kQwen2Rules{.steps = kQwen2};
constexpr PreTokenizerRules kQwen35Rules{.steps = kQwen35};
constexpr PreTokenizerRules kJais2Rules{.steps = kJais2};
constexpr PreTokenizerRules kMiniCpm5Rules{.steps = kMiniCpm5, .ignore_merges = true};
constexpr PreTokenizerRules kBailingRules{.steps = kBailing};
constexpr PreTokenizerRules kSeedCoderRules{.steps = kSeedCoder};
constexpr PreTokenizerRules kExaoneMoeRules{.steps = kExaoneMoe};
constexpr PreTokenizerRules kGpt4oRules{.steps = kGpt4o};
constexpr PreTokenizerRules kGraniteEmbeddingRules{.steps = kGpt4o, .ignore_merges = true};
constexpr PreTokenizerRules kTinyAyaRules{.steps = kTinyAya};
constexpr PreTokenizerRules kTekkenRules{.steps = kTekken, .ignore_merges = true, .add_bos = true};
constexpr PreTokenizerRules kYoutuRules{.steps = kYoutu, .ignore_merges = true};
constexpr PreTokenizerRules kKimiK2Rules{.steps = kKimiK2};
constexpr PreTokenizerRules kSuperBpeRules{.steps = kSuperBpe};
constexpr PreTokenizerRules kDeepSeekLlmRules{.steps = kDeepSeekLlm};
constexpr PreTokenizerRules kDeepSeekCoderRules{.steps = kDeepSeekCoder};
constexpr PreTokenizerRules kDeepSeek3Rules{.steps = kDeepSeek3};
constexpr PreTokenizerRules kAfmoeRules{.steps = kAfmoe};
constexpr PreTokenizerRules kBloomRules{.steps = kBloom};
constexpr PreTokenizerRules kVikingRules{.steps = kViking};
constexpr PreTokenizerRules kLagunaRules{.steps = kLaguna};
constexpr PreTokenizerRules kChameleonRules{.steps = kChameleon, .add_bos = true};
constexpr PreTokenizerRules kGemma4Rules{
    .steps = kWholeLines, .byte_level = false, .add_bos = true, .escape_spaces = true, .whole_newline_runs = true};
constexpr PreTokenizerRules kSarvamRules{.steps = kWholeLines, .byte_level = false, .escape_spaces = true};
constexpr PreTokenizerRules kWhitespaceRules{.steps = kNotSpace, .byte_level = false, .drop_gaps = true};

constexpr NamedRules kPreTokenizers[] = {
    {"default", &kDefaultRules},
    {"gpt-2", &kGpt2Rules},
    {"mpt", &kGpt2Rules},
    {"phi-2", &kGpt2Rules},
    {"jina-es", &kGpt2Rules},
    {"jina-de", &kGpt2Rules},
    {"jina-v2-es", &kGpt2Rules},
    {"jina-v2-de", &kGpt2Rules},
    {"jina-v1-en", &kGpt2Rules},
    {"jina-v2-code", &kGpt2Rules},
    {"roberta-bpe", &kGpt2Rules},
    {"gigachat", &kGpt2Rules},
    {"a.x-4.0", &kGpt2Rules},
    {"mellum", &kGpt2Rules},
    {"modern-bert", &kGpt2Rules},
    {"olmo", &kGpt2Rules},
    {"jais", &kGpt2Rules},
    {"trillion", &kGpt2Rules},
    {"granite-docling", &kGpt2Rules},
    {"exaone4", &kGpt2Rules},
    {"starcoder", &kStarCoderRules},
    {"refact", &kStarCoderRules},
    {"command-r", &kStarCoderRules},
    {"smollm", &kStarCoderRules},
    {"codeshell", &kStarCoderRules},
    {"exaone", &kStarCoderRules},
    {"minerva-7b", &kStarCoderRules},
    {"mellum2", &kStarCoderRules},
    {"falcon", &kFalconRules},
    {"llama-bpe", &kLlamaBpeRules},
    {"llama3", &kLlamaBpeRules},
    {"llama-v3", &kLlamaBpeRules},
    {"falcon3", &kLlamaBpeRules},
    {"falcon-h1", &kLlamaBpeRules},
    {"pixtral", &kLlamaBpeRules},
    {"midm-2.0", &kLlamaBpeRules},
    {"lfm2", &kLlamaBpeRules},
    {"jina-v5-nano", &kLlamaBpeRules},
    {"dbrx", &kDbrxRules},
    {"smaug-bpe", &kDbrxRules},
    {"glm4", &kDbrxRules},
    {"chatglm-bpe", &kDbrxRules},
    {"qwen2", &kQwen2Rules},
    {"deepseek-r1-qwen", &kQwen2Rules},
    {"kormo", &kQwen2Rules},
    {"f2llmv2", &kQwen2Rules},
    {"stablelm2", &kQwen2Rules},
    {"megrez", &kQwen2Rules},
    {"hunyuan", &kQwen2Rules},
    {"grok-2", &kQwen2Rules},
    {"solar-open", &kQwen2Rules},
    {"qwen35", &kQwen35Rules},
    {"jais-2", &kJais2Rules},
    {"minicpm5", &kMiniCpm5Rules},
    {"bailingmoe", &kBailingRules},
    {"bailingmoe2", &kBailingRules},
    {"llada-moe", &kBailingRules},
    {"seed-coder", &kSeedCoderRules},
    {"exaone-moe", &kExaoneMoeRules},
    {"gpt-4o", &kGpt4oRules},
    {"llama4", &kGpt4oRules},
    {"kanana2", &kGpt4oRules},
    {"talkie", &kGpt4oRules},
    {"minimax-m2", &kGpt4oRules},
    {"granite-embed-multi-97m", &kGraniteEmbeddingRules},
    {"tiny_aya", &kTinyAyaRules},
    {"cohere2moe", &kTinyAyaRules},
    {"tekken", &kTekkenRules},
    {"youtu", &kYoutuRules},
    {"kimi-k2", &kKimiK2Rules},
    {"superbpe", &kSuperBpeRules},
    {"deepseek-llm", &kDeepSeekLlmRules},
    {"deepseek-coder", &kDeepSeekCoderRules},
    {"deepseek-v3", &kDeepSeek3Rules},
    {"hunyuan-dense", &kDeepSeek3Rules},
    {"joyai-llm", &kDeepSeek3Rules},
    {"afmoe", &kAfmoeRules},
    {"bloom", &kBloomRules},
    {"poro-chat", &kBloomRules},
    {"gpt3-finnish", &kBloomRules},
    {"viking", &kVikingRules},
    {"laguna", &kLagunaRules},
    {"chameleon", &kChameleonRules},
    {"gemma4", &kGemma4Rules},
    {"granite-embed-multi-311m", &kGemma4Rules},
    {"sarvam-moe", &kSarvamRules},
    {"whitespace", &kWhitespaceRules},
};

}  // namespace

std::span<const NamedRules> all_pre_tokenizers() {
  return kPreTokenizers;
}

const PreTokenizerRules* find_pre_tokenizer(std::string_view name) {
  for (const NamedRules& named : kPreTokenizers) {
    if (named.name == name) return named.rules;
  }
  return nullptr;
}

}  // namespace rocmforge::tokenizer
