#include "tokenizer/special_tokens.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <span>
#include <string>

#include "base/log.h"

namespace rocmforge::tokenizer {
namespace {

using Names = std::span<const std::string_view>;

// Names by which llama.cpp (b21e4de) knows special tokens; the first that is in the vocabulary counts.
constexpr std::string_view kEot[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>",         "<|end_of_text|>",
    "<EOT>",      "_<EOT>",     "▁<EOT>",  "[EOT]",         "<｜end▁of▁sentence｜>", "<end_of_utterance>"};
constexpr std::string_view kEom[] = {"<|eom_id|>"};
constexpr std::string_view kFimPre[] = {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>",    "<｜fim▁begin｜>",
                                        "<PRE>",          "▁<PRE>",       "<|code_prefix|>", "<|prefix|>"};
constexpr std::string_view kFimSuf[] = {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>",    "<｜fim▁hole｜>",
                                        "<SUF>",          "▁<SUF>",       "<|code_suffix|>", "<|suffix|>"};
constexpr std::string_view kFimMid[] = {"<|fim_middle|>", "<fim-middle>", "<fim_middle>",    "<｜fim▁end｜>",
                                        "<MID>",          "▁<MID>",       "<|code_middle|>", "<|middle|>"};
constexpr std::string_view kFimPad[] = {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"};
constexpr std::string_view kFimRep[] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"};
constexpr std::string_view kFimSep[] = {"<|file_sep|>"};

constexpr std::string_view kEndOfText[] = {"<|eot_id|>",
                                           "<|im_end|>",
                                           "<|end|>",
                                           "<|return|>",
                                           "<|call|>",
                                           "<|flush|>",
                                           "<|calls|>",
                                           "<end_of_turn>",
                                           "<|endoftext|>",
                                           "</s>",
                                           "<|eom_id|>",
                                           "<EOT>",
                                           "_<EOT>",
                                           "▁<EOT>",
                                           "[EOT]",
                                           "[EOS]",
                                           "<|end_of_text|>",
                                           "<end_of_utterance>",
                                           "<eos>",
                                           "<turn|>",
                                           "<|tool_response>",
                                           "<｜end▁of▁sentence｜>",
                                           "[e~["};

// The frame of gpt-oss's messages: whoever reads the answer needs to see it.
constexpr std::string_view kFrame[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};

void make_control(Vocabulary& v, TokenId id) {
  TokenType& type = v.types[static_cast<size_t>(id.value)];
  if (type == TokenType::control) return;
  log(LogLevel::info, "tokenizer: token {} '{}' is a control token by its name; the file says otherwise", id.value,
      v.text(id));
  type = TokenType::control;
}

void find_by_name(std::optional<TokenId>& id, Vocabulary& v, Names names) {
  if (id) return;
  for (const std::string_view name : names) {
    id = v.find(name);
    if (id) return make_control(v, *id);
  }
}

void drop(std::vector<TokenId>& ids, TokenId id) {
  std::erase(ids, id);
}

bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return text.find(part) != text.npos; });
}

}  // namespace

void apply_token_names(Vocabulary& v) {
  SpecialTokens& special = v.special;
  find_by_name(special.eot, v, kEot);
  find_by_name(special.eom, v, kEom);
  find_by_name(special.fim_pre, v, kFimPre);
  find_by_name(special.fim_suf, v, kFimSuf);
  find_by_name(special.fim_mid, v, kFimMid);
  find_by_name(special.fim_pad, v, kFimPad);
  find_by_name(special.fim_rep, v, kFimRep);
  find_by_name(special.fim_sep, v, kFimSep);

  std::vector<TokenId>& ends = v.end_of_text;
  for (const auto& id : {special.eos, special.eot, special.eom, special.fim_pad, special.fim_rep, special.fim_sep}) {
    if (id) ends.push_back(*id);
  }
  for (const std::string_view name : kEndOfText) {
    if (const auto id = v.find(name)) {
      ends.push_back(*id);
      make_control(v, *id);
    }
  }
  for (const std::string_view name : kFrame) {
    if (const auto id = v.find(name)) v.always_shown.push_back(*id);
  }

  // Where messages end with <|return|> or a call, <|end|> only separates the parts of one answer.
  const auto ends_with = [&](std::string_view name) { return v.find(name).has_value(); };
  const auto end = v.find("<|end|>");
  const bool calls = ends_with("<|call|>") || ends_with("<|calls|>");
  if (end && calls && (ends_with("<|return|>") || ends_with("<|flush|>"))) {
    drop(ends, *end);
    v.always_shown.push_back(*end);
  }
  // Gemma 4 writes HTML, and ends with other tokens.
  if (const auto strike = v.find("</s>"); strike && ends_with("<|tool_response>")) {
    drop(ends, *strike);
    v.types[static_cast<size_t>(strike->value)] = TokenType::normal;
  }

  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  std::sort(v.always_shown.begin(), v.always_shown.end());
}

void apply_strip_rules(Vocabulary& v, std::string_view model_name, std::string_view architecture,
                       std::string_view pre) {
  std::string name(model_name);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto strip_left_of = [&](std::string_view token) {
    const auto id = v.find(token);
    if (!id) return;
    v.strips_left.resize(v.size());
    v.strips_left[static_cast<size_t>(id->value)] = true;
  };
  if (contains_any(pre, {"jina-v2-de", "jina-v2-es", "jina-v2-code"}) ||
      contains_any(architecture, {"nomic-bert-moe", "jina-bert-v3"})) {
    strip_left_of("<mask>");
  } else if (contains_any(name, {"phi-3", "phi3"})) {
    v.strips_right.resize(v.size());
    for (size_t i = 0; i < v.size(); i++) {
      const TokenType type = v.types[i];
      v.strips_right[i] = type == TokenType::control || type == TokenType::user_defined || type == TokenType::unknown;
    }
    for (const std::string_view token : {"<unk>", "<s>", "<|endoftext|>"}) {
      if (const auto id = v.find(token)) v.strips_right[static_cast<size_t>(id->value)] = false;
    }
  } else if (contains_any(name, {"modern-bert"})) {
    strip_left_of("[MASK]");
  }
}

}  // namespace rocmforge::tokenizer
