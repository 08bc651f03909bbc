#pragma once
// A prompt whose earlier answers are the tokens that the model wrote, so that the cache holds them.
//
// A template may render an answer otherwise than it was written (spaces in the arguments of a call, an order of keys,
// no empty reasoning), and the same text may be written in other tokens than a tokenizer cuts it into. Either way
// every token behind it would be computed anew. So the conversation is rendered a second time, with a marker in the
// place of each known answer, and its tokens replace the marker.
//
// An answer is rendered as ever where that cannot be done without doubt: the text before the marker is not what stood
// before the answer when it was written, no token that ends a text is found behind the marker, or the template leaves
// out the answer's reasoning.

#include <span>
#include <string>
#include <vector>

#include "chat/prompt.h"

namespace rocmforge::chat {

struct WrittenAnswer {
  size_t message = 0;           // index in ChatRequest::messages
  std::vector<TokenId> tokens;  // without the one that ended it
  std::string prompt_tail;      // the end of the prompt that it answered, as encode_chat() gives it
};

// encode_chat() with `answers`, in the order of their messages. `n_spliced`, if not null: how many of them are in it.
Result<std::vector<TokenId>> encode_spliced(const ChatTemplate& chat_template, const ModelFormat& format,
                                            const tokenizer::Tokenizer& tokenizer, ChatRequest conversation,
                                            std::span<const WrittenAnswer> answers, std::string* tail = nullptr,
                                            size_t* n_spliced = nullptr);

}  // namespace rocmforge::chat
