#pragma once
// For tests and fuzzers: hand-made vocabularies, as metadata of a file.

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/utf8.h"
#include "gguf/metadata.h"
#include "tokenizer/byte_level.h"

namespace rocmforge::tokenizer {

class MetadataBuilder {
 public:
  MetadataBuilder& set_text(std::string_view key, std::string_view text) {
    return put(key, gguf::ValueType::string, text);
  }
  MetadataBuilder& set_bool(std::string_view key, bool value) {
    return put(key, gguf::ValueType::boolean, value ? std::string_view("\1", 1) : std::string_view("\0", 1));
  }
  MetadataBuilder& set_u32(std::string_view key, uint32_t value) { return put(key, gguf::ValueType::u32, raw(value)); }
  MetadataBuilder& set_i64(std::string_view key, int64_t value) { return put(key, gguf::ValueType::i64, raw(value)); }
  MetadataBuilder& set_strings(std::string_view key, const std::vector<std::string>& texts) {
    std::string bytes;
    for (const std::string& text : texts) bytes += raw(static_cast<uint64_t>(text.size())) + text;
    return put_array(key, gguf::ValueType::string, texts.size(), bytes);
  }
  // The same text n times.
  MetadataBuilder& set_copies(std::string_view key, std::string_view text, uint64_t n) {
    const std::string item = raw(static_cast<uint64_t>(text.size())) + std::string(text);
    std::string bytes;
    bytes.reserve(n * item.size());
    for (uint64_t i = 0; i < n; i++) bytes += item;
    return put_array(key, gguf::ValueType::string, n, bytes);
  }
  MetadataBuilder& set_floats(std::string_view key, const std::vector<float>& values) {
    return put_array(key, gguf::ValueType::f32, values.size(), raw_all(values));
  }
  MetadataBuilder& set_ints(std::string_view key, const std::vector<int32_t>& values) {
    return put_array(key, gguf::ValueType::i32, values.size(), raw_all(values));
  }
  MetadataBuilder& set_bytes(std::string_view key, const std::vector<uint8_t>& values) {
    return put_array(key, gguf::ValueType::u8, values.size(), raw_all(values));
  }
  MetadataBuilder& remove(std::string_view key) {
    std::erase_if(items_, [&](const Item& item) { return item.key == key; });
    return *this;
  }

  gguf::Metadata build() const {
    auto storage = std::make_shared<std::vector<std::byte>>();
    for (const Item& item : items_) {
      for (const std::string& text : {item.key, item.bytes}) {
        storage->insert(storage->end(), as_bytes(text).begin(), as_bytes(text).end());
      }
    }
    std::vector<gguf::Metadata::Entry> entries;
    size_t at = 0;
    for (const Item& item : items_) {
      const std::span<const std::byte> all(*storage);
      const auto key = all.subspan(at, item.key.size()), bytes = all.subspan(at + key.size(), item.bytes.size());
      at += key.size() + bytes.size();
      entries.push_back({as_text(key), gguf::Value(item.type, item.element_type, item.n, bytes)});
    }
    return gguf::Metadata(std::move(storage), std::move(entries));
  }

 private:
  struct Item {
    std::string key;
    gguf::ValueType type;
    gguf::ValueType element_type;
    uint64_t n;
    std::string bytes;
  };

  template <class T>
  static std::string raw(T value) {
    std::string bytes(sizeof value, '\0');
    store_le(bytes.data(), value);
    return bytes;
  }
  template <class T>
  static std::string raw_all(const std::vector<T>& values) {
    std::string bytes;
    for (const T value : values) bytes += raw(value);
    return bytes;
  }
  MetadataBuilder& put(std::string_view key, gguf::ValueType type, std::string_view bytes) {
    remove(key);
    items_.push_back({std::string(key), type, type, 1, std::string(bytes)});
    return *this;
  }
  MetadataBuilder& put_array(std::string_view key, gguf::ValueType element, uint64_t n, const std::string& bytes) {
    remove(key);
    items_.push_back({std::string(key), gguf::ValueType::array, element, n, bytes});
    return *this;
  }

  std::vector<Item> items_;
};

// A vocabulary under construction: tokens in order, each with its type and score.
struct VocabularyBuilder {
  MetadataBuilder metadata;
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<float> scores;
  std::vector<std::string> merges;

  VocabularyBuilder& add(std::string_view text, int32_t type = 1, float score = 0) {
    tokens.emplace_back(text);
    types.push_back(type);
    scores.push_back(score);
    return *this;
  }
  // A merge and its resulting token.
  VocabularyBuilder& merge(std::string_view left, std::string_view right) {
    merges.push_back(std::string(left) + " " + std::string(right));
    return add(std::string(left) + std::string(right));
  }
  // "<0x00>" to "<0xFF>".
  VocabularyBuilder& add_bytes() {
    constexpr char kHex[] = "0123456789ABCDEF";
    for (int byte = 0; byte < 256; byte++) {
      const char text[] = {'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'};
      add({text, sizeof text}, 6);
    }
    return *this;
  }

  MetadataBuilder& finish(std::string_view model) {
    metadata.set_text("tokenizer.ggml.model", model);
    metadata.set_strings("tokenizer.ggml.tokens", tokens);
    metadata.set_ints("tokenizer.ggml.token_type", types);
    const bool has_scores = model == "llama" || model == "t5" || model == "plamo2";
    if (has_scores) metadata.set_floats("tokenizer.ggml.scores", scores);
    if (!has_scores && model != "bert") metadata.set_strings("tokenizer.ggml.merges", merges);
    return metadata;
  }
};

// Small vocabularies of each kind, with all their parts: every byte, some words, special tokens of every type.

inline VocabularyBuilder bytes_of_plamo2() {
  VocabularyBuilder v;
  v.add("<|plamo:unk|>", 2).add("<|plamo:bos|>", 3).add("<|plamo:eos|>", 3).add("<|plamo:pad|>", 3).add_bytes();
  return v;
}

inline VocabularyBuilder small_plamo2() {
  VocabularyBuilder v = bytes_of_plamo2();
  v.add("a", 1, -3).add("aa", 1, -6).add("b", 1, -3).add(" ", 1, -2).add("hello", 1, -5).add("hell", 1, -4);
  v.add("o", 1, -3).add(" world", 1, -6).add("wor", 1, -4).add("中", 1, -5).add("中文", 1, -9).add("e", 1, -2000);
  v.add("never", 1, -std::numeric_limits<float>::infinity()).add("<|tool|>", 4, 0);
  return v;
}

inline VocabularyBuilder small_spm() {
  VocabularyBuilder v;
  v.add("<unk>", 2).add("<s>", 3).add("</s>", 3).add_bytes();
  const char* const pieces[] = {"he", "ll", "hell", "hello", "▁hello", "▁",   "w",     "o",      "r",  "l",
                                "d",  "h",  "e",    "or",    "ld",     "wor", "world", "▁world", "▁▁", "▁▁▁▁",
                                "a",  "aa", "aaaa", "é",     "<",      "s",   ">",     "/"};
  float score = 0;
  for (const char* piece : pieces) v.add(piece, 1, score -= 1);
  v.add("<think>", 4).add("<|im_start|>", 3).add("<|im_end|>", 3);
  v.metadata.set_u32("tokenizer.ggml.bos_token_id", 1).set_u32("tokenizer.ggml.eos_token_id", 2);
  return v;
}

// Byte level: "Ġ" is a space, "Ċ" a newline.
inline VocabularyBuilder small_bpe() {
  VocabularyBuilder v;
  for (int byte = 0; byte < 256; byte++) {
    std::string spelled;
    append_utf8(spelled, spelled_byte(static_cast<uint8_t>(byte)));
    v.add(spelled);
  }
  v.merge("h", "e").merge("l", "l").merge("he", "ll").merge("hell", "o").merge("Ġ", "hello").merge("o", "r");
  v.merge("w", "or").merge("l", "d").merge("wor", "ld").merge("Ġ", "world").merge("Ġ", "Ġ").merge("ĠĠ", "ĠĠ");
  v.merge("a", "a").merge("aa", "aa").merge("1", "2").merge("12", "3").merge("Ã", "©");
  v.add("<|endoftext|>", 3).add("<|im_start|>", 3).add("<|im_end|>", 3).add("<tool_call>", 4);
  v.metadata.set_text("tokenizer.ggml.pre", "gpt-2");
  v.metadata.set_u32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(v.tokens.size() - 4));
  v.metadata.set_u32("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(v.tokens.size() - 4));
  return v;
}

// Gemma 4's kind: characters, not bytes.
inline VocabularyBuilder small_gemma4() {
  VocabularyBuilder v;
  v.add("<pad>", 3).add("<eos>", 3).add("<bos>", 3).add("<unk>", 2).add_bytes();
  for (const char* piece : {"▁", "h", "e", "l", "o", "w", "r", "d", "\n", "\n\n", "é"}) v.add(piece);
  v.merge("h", "e").merge("l", "l").merge("he", "ll").merge("hell", "o").merge("▁", "hello").merge("▁", "▁");
  v.metadata.set_u32("tokenizer.ggml.bos_token_id", 2).set_u32("tokenizer.ggml.eos_token_id", 1);
  v.metadata.set_u32("tokenizer.ggml.unknown_token_id", 3);
  return v;
}

inline VocabularyBuilder small_wpm() {
  VocabularyBuilder v;
  v.add("[PAD]", 3).add("[UNK]", 3).add("[CLS]", 3).add("[SEP]", 3).add("[MASK]", 3);
  for (const char* piece : {"▁hello", "▁wor", "ld", "▁,", "▁!", "▁un", "aff", "able", "▁中", "▁a", "a"}) v.add(piece);
  v.metadata.set_u32("tokenizer.ggml.unknown_token_id", 1).set_u32("tokenizer.ggml.cls_token_id", 2);
  v.metadata.set_u32("tokenizer.ggml.seperator_token_id", 3).set_u32("tokenizer.ggml.mask_token_id", 4);
  return v;
}

// A normalising table that maps "A" to "a", U+2460 to "1" and a tab to a space (charsmap.h).
inline std::vector<uint8_t> small_charsmap() {
  const std::string replacements = std::string(
      "a\0"
      "1\0"
      " \0",
      6);
  std::vector<uint32_t> units(1024);
  // The nodes of each text are at the text's own base plus the byte.
  const auto unit = [](uint32_t label, bool ends, uint32_t base) { return label | (ends ? 0x100u : 0) | base << 10; };
  const auto put = [&](uint32_t at, uint8_t byte, bool ends, uint32_t next) {
    units[at ^ byte] = unit(byte, ends, (at ^ byte) ^ next);
  };
  constexpr uint32_t kRoot = 256;
  units[0] = unit(0, false, kRoot);
  put(kRoot, 'A', true, 1);
  units[1] = 0x8000'0000u;
  put(kRoot, '\t', true, 2);
  units[2] = 0x8000'0004u;
  put(kRoot, 0xE2, false, 512);
  put(512, 0x91, false, 768);
  put(768, 0xA0, true, 3);
  units[3] = 0x8000'0002u;
  std::vector<uint8_t> bytes;
  const auto append = [&](uint32_t value) {
    for (int i = 0; i < 4; i++) bytes.push_back(static_cast<uint8_t>(value >> 8 * i));
  };
  append(static_cast<uint32_t>(units.size() * 4));
  for (const uint32_t value : units) append(value);
  bytes.insert(bytes.end(), replacements.begin(), replacements.end());
  return bytes;
}

// The unigram model of T5 and XLM-RoBERTa.
inline VocabularyBuilder small_ugm() {
  VocabularyBuilder v;
  v.add("<pad>", 3).add("</s>", 3).add("<unk>", 2).add("<s>", 3);
  float score = -1;
  for (const char* piece : {"▁", "▁hello", "▁hell", "o", "▁wor", "ld", "▁world", "a", "aa", "1", "h", "e", "l", "s"}) {
    v.add(piece, 1, score);
    score -= 0.5f;
  }
  v.add("<extra>", 4, -50);
  v.metadata.set_bool("tokenizer.ggml.add_space_prefix", true)
      .set_bool("tokenizer.ggml.remove_extra_whitespaces", true);
  v.metadata.set_bytes("tokenizer.ggml.precompiled_charsmap", small_charsmap());
  return v;
}

}  // namespace rocmforge::tokenizer
