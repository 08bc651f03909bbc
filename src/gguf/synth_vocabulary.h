#pragma once
// Vocabularies for synthetic models: of any size, with distinct tokens, and every text encodes and decodes without
// loss.
//
// Words are all strings of a-z, shortest first, each with and without a leading space, and each the merge of two
// shorter ones. English text takes about as many tokens as with a real vocabulary.

#include <cstdint>

#include "gguf/writer.h"

namespace rocmforge::gguf {

// Sentence-piece kind: <unk> <s> </s>, the 256 bytes, single characters, words with falling scores.
// REQUIRES: n_tokens >= 512
void add_spm_vocabulary(HeaderBuilder& header, uint32_t n_tokens);

// WordPiece kind: BERT's special tokens at their ids, single characters, words, each alone and as the end of a word.
// REQUIRES: n_tokens >= 512
void add_wpm_vocabulary(HeaderBuilder& header, uint32_t n_tokens);

// Byte-level BPE with qwen2's pre-tokenizer: the 256 bytes, words with their merges, then the three control tokens of
// ChatML at the ids that Qwen gives them, then unused ones. REQUIRES: n_tokens >= 151646
void add_bpe_vocabulary(HeaderBuilder& header, uint32_t n_tokens);

}  // namespace rocmforge::gguf
