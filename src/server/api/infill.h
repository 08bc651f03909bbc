#pragma once
// The prompt of a model that fills in the middle: code before and behind the place, with the model's own marks between.
//
//   <prefix> before <suffix> behind <middle> beginning of what is to be filled in
//
// Other files stand in front, behind the marks of a repository where the model has them.

#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "server/api/fields.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge::server {

struct InfillFile {
  std::string name, text;
};

struct InfillText {
  std::string before, behind;
  std::string beginning = {};  // of what is to be filled in
  std::vector<InfillFile> files = {};
};

// Whether the vocabulary has the marks.
bool can_infill(const tokenizer::Tokenizer& tokenizer);

// REQUIRES: can_infill(tokenizer)
Result<std::vector<TokenId>> infill_prompt(const tokenizer::Tokenizer& tokenizer, const InfillText& text);

// The same for a request with a `suffix`; refuses in `fields` what cannot be done.
std::vector<TokenId> read_infill(Fields& fields, std::string_view param, const tokenizer::Tokenizer& tokenizer,
                                 const InfillText& text);

}  // namespace rocmforge::server
