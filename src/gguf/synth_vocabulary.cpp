#include "gguf/synth_vocabulary.h"

#include <fmt/core.h>

#include <string>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"

namespace rocmforge::gguf {
namespace {

// Token types as the format numbers them.
enum TokenType : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUnused = 5, kByte = 6 };

// The strings of a-z: a, b, ... z, aa, ab, ...
class Words {
 public:
  std::string next() {
    size_t at = word_.size();
    while (at > 0 && word_[at - 1] == 'z') word_[--at] = 'a';
    if (at == 0) {
      word_.insert(0, 1, 'a');
    } else {
      word_[at - 1]++;
    }
    return word_;
  }

 private:
  std::string word_;
};

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;

  void add(std::string token, TokenType type) {
    tokens.push_back(std::move(token));
    types.push_back(type);
  }
  void write(HeaderBuilder& header) const {
    header.set_strings("tokenizer.ggml.tokens", tokens);
    header.set_array<int32_t>("tokenizer.ggml.token_type", types);
  }
};

// The character that stands for a byte in a byte-level vocabulary: itself where it can be seen, else the next free
// one from U+0100 up.
std::vector<std::string> byte_characters() {
  std::vector<std::string> out(256);
  char32_t next_free = 0x100;
  for (char32_t byte = 0; byte < 256; byte++) {
    const bool is_visible = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    append_utf8(out[byte], is_visible ? byte : next_free++);
  }
  return out;
}

}  // namespace

void add_spm_vocabulary(HeaderBuilder& header, uint32_t n_tokens) {
  CHECK(n_tokens >= 512);
  const std::string space = "\u2581";
  Vocabulary v;
  v.add("<unk>", kUnknown);
  v.add("<s>", kControl);
  v.add("</s>", kControl);
  for (int byte = 0; byte < 256; byte++) v.add(fmt::format("<0x{:02X}>", byte), kByte);
  v.add(space, kNormal);
  for (char c = '!'; c <= '~'; c++) {
    if (c < 'a' || c > 'z') v.add(std::string(1, c), kNormal);
  }
  for (Words words; v.tokens.size() < n_tokens;) {
    const std::string word = words.next();
    v.add(word, kNormal);
    if (v.tokens.size() < n_tokens) v.add(space + word, kNormal);
  }
  std::vector<float> scores(n_tokens);
  for (uint32_t i = 259; i < n_tokens; i++) scores[i] = -static_cast<float>(i - 259);

  header.set_string("tokenizer.ggml.model", "llama");
  header.set_string("tokenizer.ggml.pre", "default");
  v.write(header);
  header.set_array<float>("tokenizer.ggml.scores", scores);
  header.set_u32("tokenizer.ggml.bos_token_id", 1);
  header.set_u32("tokenizer.ggml.eos_token_id", 2);
  header.set_u32("tokenizer.ggml.unknown_token_id", 0);
  header.set_bool("tokenizer.ggml.add_bos_token", true);
  header.set_bool("tokenizer.ggml.add_eos_token", false);
}

void add_wpm_vocabulary(HeaderBuilder& header, uint32_t n_tokens) {
  constexpr size_t kFirstSpecial = 100;
  CHECK(n_tokens >= 512);
  const std::string space = "\u2581";
  Vocabulary v;
  v.add("[PAD]", kControl);
  while (v.tokens.size() < kFirstSpecial) v.add(fmt::format("[unused{}]", v.tokens.size()), kUnused);
  v.add("[UNK]", kUnknown);
  for (const char* control : {"[CLS]", "[SEP]", "[MASK]"}) v.add(control, kControl);
  for (char c = '!'; c <= '~'; c++) {
    if (c >= 'a' && c <= 'z') continue;
    v.add(space + c, kNormal);
    v.add(std::string(1, c), kNormal);
  }
  for (Words words; v.tokens.size() < n_tokens;) {
    const std::string word = words.next();
    v.add(word, kNormal);
    if (v.tokens.size() < n_tokens) v.add(space + word, kNormal);
  }
  header.set_string("tokenizer.ggml.model", "bert");
  header.set_string("tokenizer.ggml.pre", "default");
  v.write(header);
  header.set_u32("tokenizer.ggml.padding_token_id", 0);
  header.set_u32("tokenizer.ggml.unknown_token_id", kFirstSpecial);
  header.set_u32("tokenizer.ggml.bos_token_id", kFirstSpecial + 1);
  header.set_u32("tokenizer.ggml.seperator_token_id", kFirstSpecial + 2);
  header.set_u32("tokenizer.ggml.mask_token_id", kFirstSpecial + 3);
}

void add_bpe_vocabulary(HeaderBuilder& header, uint32_t n_tokens) {
  constexpr uint32_t kWords = 151643;
  CHECK(n_tokens >= kWords + 3);
  const std::vector<std::string> bytes = byte_characters();
  const std::string& space = bytes[' '];
  Vocabulary v;
  std::vector<std::string> merges;
  for (const std::string& byte : bytes) v.add(byte, kNormal);
  for (Words words; v.tokens.size() < kWords;) {
    const std::string word = words.next();
    if (word.size() > 1) {
      // Pairs of letters form first, so longer words are made of those.
      const size_t split = word.size() > 2 ? 2 : 1;
      v.add(word, kNormal);
      merges.push_back(word.substr(0, split) + " " + word.substr(split));
    }
    if (v.tokens.size() == kWords) break;
    v.add(space + word, kNormal);
    merges.push_back(space + " " + word);
  }
  for (const char* control : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) v.add(control, kControl);
  while (v.tokens.size() < n_tokens) v.add(fmt::format("[PAD{}]", v.tokens.size()), kUnused);

  header.set_string("tokenizer.ggml.model", "gpt2");
  header.set_string("tokenizer.ggml.pre", "qwen2");
  v.write(header);
  header.set_strings("tokenizer.ggml.merges", merges);
  header.set_u32("tokenizer.ggml.bos_token_id", kWords);
  header.set_u32("tokenizer.ggml.eos_token_id", kWords + 2);
  header.set_u32("tokenizer.ggml.padding_token_id", kWords);
  header.set_bool("tokenizer.ggml.add_bos_token", false);
}

}  // namespace rocmforge::gguf
