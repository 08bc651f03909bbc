#pragma once
// The members that every generating request has in common, read and checked.

#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "server/api/call.h"
#include "server/api/fields.h"
#include "server/api/served_model.h"

namespace rocmforge::server {

inline constexpr int64_t kMaxChoices = 16;  // n
inline constexpr size_t kMaxStops = 16, kMaxStopBytes = 256;
inline constexpr size_t kMaxMessages = 4096, kMaxTools = 256;

struct GenerationFields {
  GenerationRequest request;  // all but its prompt
  uint32_t n = 1;
  bool stream = false;
  bool include_usage = false;
  std::string model;  // as the client named it
};

// Refuses in `fields` what is wrong. `shared` gives the seed when there is none.
GenerationFields read_generation(Fields& fields, const Call& call, const ServedModel& model);

// Token ids in a JSON array, each inside the vocabulary.
std::optional<std::vector<TokenId>> read_tokens(Fields& fields, std::string_view name, const JsonArray& array,
                                                const tokenizer::Tokenizer& tokenizer);
bool is_token_array(const JsonArray& array);

// context_length_exceeded for a text that cannot fit, told by its size: one that large is not even tokenized.
std::optional<ApiError> check_size(size_t n_bytes, const ServedModel& model, std::string_view param);
// context_length_exceeded when prompt and answer do not fit together.
std::optional<ApiError> check_context(const GenerationRequest& request, const ServedModel& model,
                                      std::string_view param);

}  // namespace rocmforge::server
