// Text into tokens and back, for a small vocabulary of each kind, and for vocabularies made of the input.
//
// Byte 0 is the kind (0 SPM, 1 BPE, 2 Gemma 4's BPE, 3 WPM, 4 a vocabulary from the input, 5 UGM), byte 1 the
// pre-tokenizer of a BPE, byte 2 the options; the rest is text, or tokens between zero bytes and then text.

#include <array>
#include <cstdint>
#include <map>
#include <optional>

#include "base/check.h"
#include "base/log.h"
#include "base/utf8.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary_builder.h"

namespace {

using namespace rocmforge;
using namespace rocmforge::tokenizer;

constexpr size_t kMaxInput = 1u << 16;
constexpr std::array kModels = {"llama", "gpt2", "gemma4", "bert", "whitespace", "t5", "plamo2"};

MetadataBuilder small_vocabulary(uint8_t kind, std::string_view pre) {
  switch (kind) {
    case 0:
      return small_spm().finish("llama");
    case 1:
      return small_bpe().finish("gpt2").set_text("tokenizer.ggml.pre", pre);
    case 2:
      return small_gemma4().finish("gemma4");
    case 5:
      return small_ugm().finish("t5");
    case 6:
      return small_plamo2().finish("plamo2");
    default:
      return small_wpm().finish("bert");
  }
}

// Built once for each kind and pre-tokenizer: loading is not what is searched here.
const Tokenizer& known_tokenizer(uint8_t kind, uint8_t pre) {
  static std::map<std::pair<uint8_t, uint8_t>, Tokenizer> built;
  const auto names = all_pre_tokenizers();
  pre = kind == 1 ? static_cast<uint8_t>(pre % names.size()) : 0;
  auto place = built.find({kind, pre});
  if (place == built.end()) {
    auto tokenizer = Tokenizer::load(small_vocabulary(kind, names[pre].name).build());
    CHECK(tokenizer.ok());
    place = built.emplace(std::pair(kind, pre), *std::move(tokenizer)).first;
  }
  return place->second;
}

// Tokens until an empty one; each begins with a byte for its type and one for its score or, of a BPE, what is merged.
std::optional<Tokenizer> tokenizer_from(std::string_view& input, uint8_t model, uint8_t pre) {
  VocabularyBuilder v;
  while (!input.empty()) {
    const size_t end = std::min(input.find('\0'), input.size());
    const std::string_view item = input.substr(0, end);
    input.remove_prefix(std::min(end + 1, input.size()));
    if (item.size() < 2) break;
    const auto score = static_cast<float>(static_cast<signed char>(item[1]));
    v.add(item.substr(2), static_cast<unsigned char>(item[0]) % 8, score);
    if (item[1] & 1) v.merges.emplace_back(item.substr(2));
  }
  const auto names = all_pre_tokenizers();
  MetadataBuilder metadata = v.finish(kModels[model % kModels.size()]);
  metadata.set_text("tokenizer.ggml.pre", names[pre % names.size()].name);
  metadata.set_u32("tokenizer.ggml.bos_token_id", pre);
  auto tokenizer = Tokenizer::load(metadata.build());
  if (!tokenizer.ok()) return std::nullopt;
  return *std::move(tokenizer);
}

void check_tokens(const Tokenizer& t, const std::vector<TokenId>& ids, bool may_be_control) {
  const Vocabulary& v = t.vocabulary();
  for (const TokenId id : ids) {
    CHECK(t.contains(id));
    const bool is_plain = v.is_text(id.value) || v.type(id) == TokenType::byte || id == v.special.unk;
    CHECK(may_be_control || is_plain);
  }
}

// What streams out is what decodes at once, less the space that only decode() takes away.
void check_stream(const Tokenizer& t, const std::vector<TokenId>& ids, bool show_special) {
  std::string bytes, streamed;
  StreamDecoder stream(t, {.show_special = show_special});
  for (const TokenId id : ids) {
    if (show_special || t.is_shown(id)) bytes += t.token_text(id);
    const auto out = stream.push(id);
    CHECK(is_valid_utf8(out.text));
    streamed += out.text;
  }
  streamed += stream.finish().text;
  CHECK(streamed == to_valid_utf8(bytes));
}

// The names found at every place are those that a search of the whole vocabulary finds.
void check_control_names(const Tokenizer& t, std::string_view text) {
  text = text.substr(0, 256);
  const Vocabulary& v = t.vocabulary();
  PhraseFinder::Scan scan(t.control_names(), text);
  for (size_t at = 0; at < text.size(); at++) {
    size_t longest = 0;
    for (size_t i = 0; i < v.size(); i++) {
      const std::string_view name = v.tokens[i];
      const bool counts = v.types[i] == TokenType::control && name.size() > 1 && is_valid_utf8(name);
      if (counts && name.size() > longest && text.substr(at).starts_with(name)) longest = name.size();
    }
    const auto match = scan.longest_at(at);
    CHECK((match ? match->n_bytes : 0) == longest);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3 || size > kMaxInput) return 0;
  const LogCapture silent([](LogLevel, std::string_view) {});
  const uint8_t kind = data[0] % 6, pre = data[1], options = data[2];
  std::string_view text(reinterpret_cast<const char*>(data) + 3, size - 3);

  std::optional<Tokenizer> own;
  if (kind == 4) {
    own = tokenizer_from(text, options >> 4, pre);
    if (!own) return 0;
  }
  const Tokenizer& t = own ? *own : known_tokenizer(kind, pre);

  const EncodeOptions encode{(options & 1) != 0, (options & 2) != 0, (options & 4) != 0};
  const auto ids = t.encode(text, encode);
  CHECK(ids.ok());
  check_tokens(t, *ids, encode.parse_special || encode.add_bos || encode.add_eos);
  check_control_names(t, text);
  const auto decoded = t.decode(*ids, (options & 8) != 0);
  CHECK(decoded.ok());
  check_stream(t, *ids, (options & 8) != 0);

  // Where every byte has a token, the text must come back. After a user-defined token SPM adds a space, and U+2581 is a
  // space to it and to Gemma 4.
  const bool is_plain = text.find("<think>") == text.npos && text.find("\xE2\x96\x81") == text.npos;
  const bool has_all_bytes = kind == 0 || kind == 2 || (kind == 1 && t.vocabulary().rules->byte_level);
  if (has_all_bytes && is_plain)
    CHECK(*t.decode(*t.encode(text)) == (kind == 0 ? std::string(text) : to_valid_utf8(text)));
  return 0;
}
