#include "tokenizer/vocabulary.h"

#include <fmt/core.h>

#include <cmath>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/log.h"
#include "base/utf8.h"
#include "tokenizer/special_tokens.h"

namespace rocmforge::tokenizer {
namespace {

// The largest vocabularies in use have 262,144 tokens, 3 MiB of text and 515,000 merges.
constexpr uint64_t kMaxTokens = 4u << 20;
constexpr uint64_t kMaxMerges = 4u << 20;
constexpr uint64_t kMaxTextBytes = 64u << 20;
// Texts searched for at every place of an input; real ones are below 100 bytes.
constexpr size_t kMaxSpecialBytes = 1024;
constexpr uint64_t kMaxAllSpecialBytes = 1u << 20;

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";
constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";

template <class... Args>
Error bad_key(std::string_view key, fmt::format_string<Args...> format, Args&&... args) {
  return {ErrorCode::tokenizer_vocabulary,
          fmt::format("tokenizer: key '{}': {}", key, fmt::format(format, std::forward<Args>(args)...))};
}

Error too_many(std::string_view key, uint64_t n, std::string_view what, uint64_t allowed) {
  return {ErrorCode::limit_exceeded, fmt::format("tokenizer: key '{}': {} {}, {} are allowed", key, n, what, allowed)};
}

// A token's text as a message can carry it.
std::string quoted(std::string_view text) {
  constexpr size_t kMost = 60;
  return fmt::format("'{}{}'", to_valid_utf8(text.substr(0, kMost)), text.size() > kMost ? "..." : "");
}

// The elements of an array of exactly this type, one per token.
template <class T>
Result<std::vector<T>> per_token(const gguf::Value& value, std::string_view key, gguf::ValueType type,
                                 size_t n_tokens) {
  if (value.type() != gguf::ValueType::array || value.element_type() != type) {
    return bad_key(key, "is no array of {}", gguf::value_type_name(type));
  }
  const uint64_t n = value.n_elements();
  if (n != n_tokens) return bad_key(key, "has {} elements for {} tokens", n, n_tokens);
  std::vector<T> out(n_tokens);
  for (size_t i = 0; i < n_tokens; i++) out[i] = load_le<T>(value.bytes().data() + i * sizeof(T));
  return out;
}

Result<TextTable> load_tokens(const gguf::Metadata& metadata, const LoadControl& control) {
  const gguf::StringArrayView texts = TRY(metadata.strings(kTokensKey));
  if (texts.size() == 0) return bad_key(kTokensKey, "is empty");
  if (texts.size() > kMaxTokens) return too_many(kTokensKey, texts.size(), "tokens", kMaxTokens);
  CheckedU64 n_bytes = 0;
  for (const std::string_view text : texts) n_bytes += text.size();
  if (!n_bytes.fits(kMaxTextBytes)) return too_many(kTokensKey, *n_bytes.get(), "bytes of text", kMaxTextBytes);
  TextTable tokens(texts.size(), n_bytes.value());
  for (const std::string_view text : texts) {
    TRY(control.check_at(tokens.size()));
    if (const auto same = tokens.add(text)) {
      return bad_key(kTokensKey, "tokens {} and {} are both {}", *same, tokens.size() - 1, quoted(text));
    }
  }
  return tokens;
}

Result<std::vector<TokenType>> load_types(const gguf::Metadata& metadata, size_t n_tokens) {
  const gguf::Value* value = metadata.find(kTypesKey);
  if (!value) return std::vector<TokenType>(n_tokens, TokenType::normal);
  const auto numbers = TRY(per_token<int32_t>(*value, kTypesKey, gguf::ValueType::i32, n_tokens));
  std::vector<TokenType> types;
  types.reserve(n_tokens);
  for (const int32_t number : numbers) {
    if (number < 0 || number > static_cast<int32_t>(TokenType::byte)) {
      return bad_key(kTypesKey, "token {} has the unknown type {}", types.size(), number);
    }
    types.push_back(static_cast<TokenType>(number));
  }
  return types;
}

Result<std::vector<float>> load_scores(const gguf::Metadata& metadata, size_t n_tokens) {
  const gguf::Value* value = metadata.find(kScoresKey);
  if (!value) return bad_key(kScoresKey, "is missing, and SPM and UGM vocabularies need it");
  auto scores = TRY(per_token<float>(*value, kScoresKey, gguf::ValueType::f32, n_tokens));
  for (size_t i = 0; i < n_tokens; i++) {
    if (std::isnan(scores[i])) return bad_key(kScoresKey, "the score of token {} is not a number", i);
  }
  return scores;
}

Result<std::string> load_charsmap(const gguf::Metadata& metadata) {
  constexpr std::string_view kKey = "tokenizer.ggml.precompiled_charsmap";
  const gguf::Value* value = metadata.find(kKey);
  if (!value) return std::string();
  const bool is_bytes = value->type() == gguf::ValueType::array &&
                        (value->element_type() == gguf::ValueType::u8 || value->element_type() == gguf::ValueType::i8);
  // An empty array has no type to speak of.
  if (!is_bytes && !(value->type() == gguf::ValueType::array && value->n_elements() == 0)) {
    return bad_key(kKey, "is no array of bytes");
  }
  return std::string(as_text(value->bytes()));
}

// The byte that "<0x0A>" names.
std::optional<uint8_t> byte_named(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  int byte = 0;
  for (const char c : text.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    byte = byte * 16 + digit;
  }
  return static_cast<uint8_t>(byte);
}

// Finds the byte tokens by their type and, where unknown characters fall back to bytes, the others by name: "<0x41>",
// or else the byte itself.
Result<void> find_byte_tokens(Vocabulary& v) {
  v.byte_tokens.fill(-1);
  for (size_t i = 0; i < v.size(); i++) {
    if (v.types[i] != TokenType::byte) continue;
    const auto byte = byte_named(v.tokens[i]);
    if (!byte) return bad_key(kTokensKey, "byte token {} is {}, not '<0x00>' to '<0xFF>'", i, quoted(v.tokens[i]));
    int32_t& token = v.byte_tokens[*byte];
    if (token >= 0) return bad_key(kTokensKey, "tokens {} and {} are both byte {:#04x}", token, i, *byte);
    token = static_cast<int32_t>(i);
  }
  const bool has_fallback = v.kind == Kind::spm || (v.kind == Kind::bpe && !v.rules->byte_level);
  if (!has_fallback) return {};
  const auto find_text = [&](std::string_view text) -> std::optional<TokenId> {
    const auto id = v.find(text);
    return id && v.is_text(id->value) ? id : std::nullopt;
  };
  for (int byte = 0; byte < 256; byte++) {
    const char raw = static_cast<char>(byte);
    if (v.byte_tokens[byte] >= 0) continue;
    if (const auto id = find_text(fmt::format("<0x{:02X}>", byte))) {
      v.byte_tokens[byte] = id->value;
      v.types[static_cast<size_t>(id->value)] = TokenType::byte;
    } else if (const auto alone = find_text({&raw, 1})) {
      v.byte_tokens[byte] = alone->value;
    }
  }
  return {};
}

Result<std::optional<TokenId>> special_id(const gguf::Metadata& metadata, std::string_view key, size_t n_tokens) {
  const gguf::Value* value = metadata.find(key);
  if (!value) return std::optional<TokenId>();
  const auto id = value->as_i64();
  if (!id || *id < 0 || static_cast<uint64_t>(*id) >= n_tokens) {
    return Error{ErrorCode::tokenizer_special,
                 fmt::format("tokenizer: key '{}': {} is no id of a vocabulary of {} tokens", key,
                             id ? fmt::format("{}", *id) : "its value", n_tokens)};
  }
  return std::optional<TokenId>(TokenId(static_cast<int32_t>(*id)));
}

// What llama.cpp assumes for a key that is not there: ids of the first models of the kind.
SpecialTokens usual_ids(Kind kind) {
  SpecialTokens ids;
  switch (kind) {
    case Kind::spm:
      ids.unk = TokenId(0), ids.bos = TokenId(1), ids.eos = TokenId(2);
      break;
    case Kind::wpm:
      ids.pad = TokenId(0), ids.unk = TokenId(100), ids.bos = TokenId(101), ids.sep = TokenId(102);
      ids.mask = TokenId(103);
      break;
    case Kind::ugm:
      ids.pad = TokenId(0), ids.eos = TokenId(1), ids.unk = TokenId(2);
      break;
    case Kind::plamo2:
      ids.unk = TokenId(0), ids.bos = TokenId(1), ids.eos = TokenId(2), ids.pad = TokenId(3);
      break;
    case Kind::bpe:
      break;
  }
  return ids;
}

Result<void> load_special_ids(Vocabulary& v, const gguf::Metadata& metadata) {
  SpecialTokens& ids = v.special;
  ids = usual_ids(v.kind);
  struct Key {
    std::string_view name;
    std::optional<TokenId>& id;
  };
  // Later keys win: the older name of a token comes before the newer one.
  const Key keys[] = {
      {"cls_token_id", ids.bos},         {"bos_token_id", ids.bos},         {"eos_token_id", ids.eos},
      {"eot_token_id", ids.eot},         {"eom_token_id", ids.eom},         {"unknown_token_id", ids.unk},
      {"seperator_token_id", ids.sep},   {"padding_token_id", ids.pad},     {"mask_token_id", ids.mask},
      {"prefix_token_id", ids.fim_pre},  {"suffix_token_id", ids.fim_suf},  {"middle_token_id", ids.fim_mid},
      {"fim_pre_token_id", ids.fim_pre}, {"fim_suf_token_id", ids.fim_suf}, {"fim_mid_token_id", ids.fim_mid},
      {"fim_pad_token_id", ids.fim_pad}, {"fim_rep_token_id", ids.fim_rep}, {"fim_sep_token_id", ids.fim_sep},
  };
  for (const Key& key : keys) {
    if (key.id && static_cast<size_t>(key.id->value) >= v.size()) key.id.reset();
    if (key.name == "cls_token_id" && v.kind != Kind::wpm) continue;
    if (const auto id = TRY(special_id(metadata, fmt::format("tokenizer.ggml.{}", key.name), v.size()))) key.id = id;
  }
  return {};
}

const PreTokenizerRules& rules_named(std::string_view name) {
  if (name.empty()) {
    log(LogLevel::warn, "tokenizer: key 'tokenizer.ggml.pre' is missing; using the rules of 'gpt-2'");
    return *find_pre_tokenizer("gpt-2");
  }
  if (const PreTokenizerRules* rules = find_pre_tokenizer(name)) return *rules;
  log(LogLevel::warn, "tokenizer: key 'tokenizer.ggml.pre': {} is not known; using the rules of 'llama-bpe'",
      quoted(name));
  return *find_pre_tokenizer("llama-bpe");
}

Result<std::vector<Merge>> load_merges(const Vocabulary& v, const gguf::Metadata& metadata,
                                       const LoadControl& control) {
  const gguf::StringArrayView texts = TRY(metadata.strings(kMergesKey));
  if (texts.size() > kMaxMerges) return too_many(kMergesKey, texts.size(), "merges", kMaxMerges);
  std::vector<Merge> merges;
  merges.reserve(texts.size());
  std::string result;
  for (const std::string_view text : texts) {
    TRY(control.check_at(merges.size()));
    const size_t space = text.find(' ', 1);  // the left token may be a space, or begin with one
    if (space == text.npos || space + 1 == text.size()) {
      return bad_key(kMergesKey, "merge {} {} is not two tokens", merges.size(), quoted(text));
    }
    const std::string_view left_text = text.substr(0, space), right_text = text.substr(space + 1);
    result.assign(left_text).append(right_text);
    const auto left = v.tokens.find(left_text), right = v.tokens.find(right_text), joined = v.tokens.find(result);
    if (!left || !right || !joined) {
      const std::string_view absent = !left ? left_text : !right ? right_text : std::string_view(result);
      return bad_key(kMergesKey, "merge {} {} names {}, which is no token", merges.size(), quoted(text),
                     quoted(absent));
    }
    merges.push_back({static_cast<int32_t>(*left), static_cast<int32_t>(*right), static_cast<int32_t>(*joined)});
  }
  return merges;
}

Result<Kind> kind_named(std::string_view model) {
  if (model == "llama") return Kind::spm;
  if (model == "bert") return Kind::wpm;
  if (model == "t5") return Kind::ugm;
  if (model == "plamo2") return Kind::plamo2;
  if (model == "gpt2" || model == "gemma4" || model == "whitespace") return Kind::bpe;
  return Error{ErrorCode::tokenizer_kind,
               fmt::format("tokenizer: key 'tokenizer.ggml.model': the kind {} is not supported; llama (SPM), gpt2 and "
                           "gemma4 (BPE), whitespace (BPE), bert (WPM), t5 (UGM) and plamo2 are",
                           quoted(model))};
}

Result<void> check_special_texts(const Vocabulary& v) {
  CheckedU64 n_bytes = 0;
  for (size_t i = 0; i < v.size(); i++) {
    if (v.is_text(static_cast<int32_t>(i)) && v.types[i] != TokenType::user_defined) continue;
    if (v.tokens[i].size() > kMaxSpecialBytes) {
      return bad_key(kTokensKey, "special token {} has {} bytes, {} are allowed", i, v.tokens[i].size(),
                     kMaxSpecialBytes);
    }
    n_bytes += v.tokens[i].size();
  }
  if (!n_bytes.fits(kMaxAllSpecialBytes)) {
    return too_many(kTokensKey, *n_bytes.get(), "bytes of special tokens", kMaxAllSpecialBytes);
  }
  return {};
}

}  // namespace

std::optional<TokenId> Vocabulary::find(std::string_view text) const {
  const auto number = tokens.find(text);
  if (!number) return std::nullopt;
  return TokenId(static_cast<int32_t>(*number));
}

bool Vocabulary::is_text(int32_t id) const {
  switch (types[static_cast<size_t>(id)]) {
    case TokenType::undefined:
    case TokenType::normal:
    case TokenType::user_defined:
    case TokenType::unused:
      return true;
    case TokenType::unknown:
    case TokenType::control:
    case TokenType::byte:
      return false;
  }
  RF_UNREACHABLE("a TokenType outside its enum");
}

Result<Vocabulary> Vocabulary::load(const gguf::Metadata& metadata, const LoadControl& control) {
  Vocabulary v;
  const std::string_view model = TRY(metadata.string("tokenizer.ggml.model"));
  v.kind = TRY(kind_named(model));
  const std::string_view pre = model == "gemma4" ? "gemma4" : TRY(metadata.string_or("tokenizer.ggml.pre", ""));
  if (v.kind == Kind::bpe) v.rules = &rules_named(pre);

  v.tokens = TRY(load_tokens(metadata, control));
  v.types = TRY(load_types(metadata, v.size()));
  const bool has_scores = v.kind == Kind::spm || v.kind == Kind::ugm || v.kind == Kind::plamo2;
  if (has_scores) v.scores = TRY(load_scores(metadata, v.size()));
  if (v.kind == Kind::ugm) v.charsmap = TRY(load_charsmap(metadata));
  TRY(load_special_ids(v, metadata));
  apply_token_names(v);
  TRY(check_special_texts(v));
  TRY(find_byte_tokens(v));
  apply_strip_rules(v, TRY(metadata.string_or("general.name", "")), TRY(metadata.string_or("general.architecture", "")),
                    pre);
  if (v.kind == Kind::bpe) v.merges = TRY(load_merges(v, metadata, control));

  const bool usually_bos = v.kind == Kind::bpe ? v.rules->add_bos : v.kind == Kind::spm || v.kind == Kind::wpm;
  v.add_bos = TRY(metadata.boolean_or("tokenizer.ggml.add_bos_token", usually_bos));
  // Gemma 4 files say false; the model was trained with it.
  if (v.kind == Kind::bpe && v.rules->whole_newline_runs) v.add_bos = true;
  const bool usually_eos = v.kind == Kind::wpm || v.kind == Kind::ugm;
  v.add_eos = TRY(metadata.boolean_or("tokenizer.ggml.add_eos_token", usually_eos));
  v.add_sep = TRY(metadata.boolean_or("tokenizer.ggml.add_sep_token", v.kind == Kind::wpm));
  v.merges_spaces = TRY(metadata.boolean_or("tokenizer.ggml.remove_extra_whitespaces", false));
  v.add_space_prefix = TRY(metadata.boolean_or("tokenizer.ggml.add_space_prefix", v.kind == Kind::spm));
  const bool lowercase = v.kind != Kind::bpe || !v.rules->drop_gaps;
  v.lowercase = TRY(metadata.boolean_or("tokenizer.ggml.normalizer.lowercase", lowercase));
  v.strip_accents = TRY(metadata.boolean_or("tokenizer.ggml.normalizer.strip_accents", v.lowercase));
  return v;
}

}  // namespace rocmforge::tokenizer
