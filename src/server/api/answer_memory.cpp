#include "server/api/answer_memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/seeded_hash.h"
#include "server/api/body_parts.h"
#include "server/api/fields.h"

namespace rocmforge::server {
namespace {

using Kind = chat::MessageEvent::Kind;

constexpr std::string_view kSpace = " \t\r\n";

// The keys of objects in order: a client may send them in another.
void append_sorted(std::string& out, const JsonValue& value) {
  if (const auto* array = value.as<JsonArray>()) {
    out += '[';
    for (const JsonValue& one : *array) append_sorted(out, one), out += ',';
    out += ']';
  } else if (const auto* object = value.as<JsonObject>()) {
    std::vector<const JsonObject::value_type*> members;
    for (const auto& member : *object) members.push_back(&member);
    std::ranges::sort(members, {}, [](const auto* member) { return member->first; });
    out += '{';
    for (const auto* member : members) {
      append_json_string(out, member->first);
      out += ':';
      append_sorted(out, member->second);
      out += ',';
    }
    out += '}';
  } else if (const auto number = as_number(value)) {
    out += fmt::format("{}", *number);  // 1 and 1.0 are one number
  } else {
    out += json_of(value);
  }
}

std::string key_of(std::string_view model, std::string_view digest, std::string_view owner) {
  return fmt::format("{}\n{}\n{}", digest, owner, model);
}

uint64_t text_hash(std::span<const TokenId> tokens, const tokenizer::Tokenizer& tokenizer) {
  uint64_t hash = 0;
  for (const TokenId token : tokens) {
    hash = seeded_hash(hash, tokenizer.contains(token) ? seeded_hash(tokenizer.token_text(token)) : 1);
  }
  return hash;
}

template <class T>
void append_bytes(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

void AnswerDigest::Text::mix(unsigned char c) {
  a = (a ^ c) * 0x9E3779B97F4A7C15u;
  b = (b + c) * 0xD6E8FEB86659FD93u;
  a ^= a >> 29;
  b ^= b >> 32;
}

void AnswerDigest::Text::add(std::string_view text) {
  for (const char c : text) {
    if (kSpace.find(c) != kSpace.npos) {
      if (has_begun) space += c;
      continue;
    }
    has_begun = true;
    for (const char before : space) mix(static_cast<unsigned char>(before));
    space.clear();
    mix(static_cast<unsigned char>(c));
  }
}

void AnswerDigest::add(const chat::MessageEvent& event) {
  switch (event.kind) {
    case Kind::reasoning:
      return reasoning_.add(event.text);
    case Kind::content:
      return content_.add(event.text);
    case Kind::call:
      is_broken_ |= in_call_;
      in_call_ = true;
      arguments_.clear();
      calls_.add(fmt::format("\x01{}\x02", event.text));
      return;
    case Kind::arguments:
      is_broken_ |= arguments_.size() + event.text.size() > kMaxArguments;
      if (!is_broken_) arguments_ += event.text;
      return;
    case Kind::call_end: {
      in_call_ = false;
      const auto parsed = parse_json(arguments_.empty() ? "{}" : arguments_);
      std::string sorted;
      if (parsed.ok()) append_sorted(sorted, *parsed);
      calls_.add(parsed.ok() ? sorted : arguments_);
      arguments_.clear();
      return;
    }
  }
}

std::optional<std::string> AnswerDigest::finish() const {
  if (is_broken_ || in_call_ || (!content_.has_begun && !calls_.has_begun)) return {};
  std::string out;
  for (const Text* text : {&reasoning_, &content_, &calls_}) out += fmt::format("{:016x}{:016x}", text->a, text->b);
  return out;
}

std::optional<std::string> AnswerDigest::of_message(const JsonValue& message) {
  if (text_or(message, "role", "") != "assistant") return {};
  AnswerDigest digest;
  digest.add({.kind = Kind::reasoning, .text = text_or(message, "reasoning_content", "")});
  if (const JsonValue* content = message.find("content")) {
    const auto* parts = content->as<JsonArray>();
    for (const JsonValue& part : parts ? *parts : JsonArray{}) {
      digest.add({.kind = Kind::content, .text = text_or(part, "text", "")});
    }
    if (const auto* text = content->as<std::string>()) digest.add({.kind = Kind::content, .text = *text});
  }
  const JsonValue* calls = message.find("tool_calls");
  const auto* list = calls ? calls->as<JsonArray>() : nullptr;
  for (const JsonValue& call : list ? *list : JsonArray{}) {
    const JsonValue* function = call.find("function");
    if (!function) return {};
    digest.add({.kind = Kind::call, .text = text_or(*function, "name", "")});
    const JsonValue* arguments = function->find("arguments");
    const auto* text = arguments ? arguments->as<std::string>() : nullptr;
    digest.add({.kind = Kind::arguments, .text = text ? *text : arguments ? json_of(*arguments) : "{}"});
    digest.add({.kind = Kind::call_end, .text = {}});
  }
  return digest.finish();
}

void AnswerMemory::put(std::string_view model, std::string_view digest, std::string_view owner,
                       const RememberedAnswer& answer, const tokenizer::Tokenizer& tokenizer) {
  std::string bytes;
  append_bytes(bytes, text_hash(answer.tokens, tokenizer));
  append_bytes(bytes, static_cast<uint64_t>(answer.prompt_tail.size()));
  bytes += answer.prompt_tail;
  for (const TokenId token : answer.tokens) append_bytes(bytes, token.value);
  StoredResponse stored{.id = key_of(model, digest, owner), .owner = std::string(owner)};
  stored.json = std::move(bytes);
  store_.put(std::move(stored));
}

std::optional<RememberedAnswer> AnswerMemory::find(std::string_view model, std::string_view digest,
                                                   std::string_view owner, const tokenizer::Tokenizer& tokenizer) {
  const auto found = store_.find(key_of(model, digest, owner), owner);
  if (!found) return {};
  std::string_view bytes = found->json;
  uint64_t hash = 0, n_tail = 0;
  std::memcpy(&hash, bytes.data(), sizeof hash);
  std::memcpy(&n_tail, bytes.data() + sizeof hash, sizeof n_tail);
  bytes.remove_prefix(sizeof hash + sizeof n_tail);
  RememberedAnswer out;
  out.prompt_tail = bytes.substr(0, n_tail);
  bytes.remove_prefix(n_tail);
  for (; bytes.size() >= sizeof(int32_t); bytes.remove_prefix(sizeof(int32_t))) {
    int32_t value = 0;
    std::memcpy(&value, bytes.data(), sizeof value);
    out.tokens.emplace_back(value);
  }
  if (text_hash(out.tokens, tokenizer) != hash) return {};
  return out;
}

}  // namespace rocmforge::server
