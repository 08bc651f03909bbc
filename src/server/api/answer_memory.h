#pragma once
// The tokens of answers, found again when a client sends an answer back as history. Clients send texts: what they send
// is recognised by what it says, not by its bytes.
//
// Bounded by count, bytes and age, for each key and for all keys, by a ResponseStore.
//
// Threads: of AnswerDigest one at a time; of AnswerMemory any.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "chat/message_parser.h"
#include "server/api/response_store.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge::server {

// What an answer says, as a hash: its reasoning, its content and its calls. White space around a text, the ids of calls
// and the spelling of arguments make no difference. Reads the answer piece by piece and keeps arguments only.
class AnswerDigest {
 public:
  static constexpr size_t kMaxArguments = 1u << 20;

  void add(const chat::MessageEvent& event);
  // Nothing: the answer says nothing, or a call in it is not complete or too large.
  std::optional<std::string> finish() const;

  // Of a message in a chat request's form; nothing: it is no answer, or says nothing.
  static std::optional<std::string> of_message(const JsonValue& message);

 private:
  struct Text {
    uint64_t a = 0x243F6A8885A308D3u, b = 0x13198A2E03707344u;
    bool has_begun = false;
    std::string space;  // may be around the text
    void add(std::string_view text);
    void mix(unsigned char c);
  };
  Text reasoning_, content_, calls_;
  std::string arguments_;
  bool in_call_ = false, is_broken_ = false;
};

struct RememberedAnswer {
  std::vector<TokenId> tokens;
  std::string prompt_tail;
};

class AnswerMemory {
 public:
  AnswerMemory(const ResponseStore::Limits& limits, Clock clock) : store_(limits, std::move(clock)) {}

  // `model` and `digest` together name the answer.
  void put(std::string_view model, std::string_view digest, std::string_view owner, const RememberedAnswer& answer,
           const tokenizer::Tokenizer& tokenizer);
  // Nothing: unknown, or its tokens have other texts in this vocabulary.
  std::optional<RememberedAnswer> find(std::string_view model, std::string_view digest, std::string_view owner,
                                       const tokenizer::Tokenizer& tokenizer);
  size_t size() const { return store_.size(); }

 private:
  ResponseStore store_;
};

}  // namespace rocmforge::server
