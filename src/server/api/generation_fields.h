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
inline constexpr size_t kMaxStops = 16, kMaxStopBytes = 256, kMaxStopTokens = 64;
inline constexpr size_t kMaxMessages = 4096, kMaxTools = 256;

struct GenerationFields {
  GenerationRequest request;  // all but its prompt
  uint32_t n = 1;
  bool stream = false;
  bool include_usage = false;
  bool echo = false;             // of completions: the text begins with the prompt
  bool prompt_logprobs = false;  // the answer has them by vLLM's name
  std::string model;             // as the client named it
};

// Refuses in `fields` what is wrong, all but the constraint: that of an answer in a conversation is made with its
// tools (tools.h). `min_answer` is the least number of tokens that may be asked for.
GenerationFields read_generation(Fields& fields, const Call& call, const ServedModel& model, int64_t min_answer = 1);
// The same with the constraint, where the answer is the text alone.
GenerationFields read_constrained_generation(Fields& fields, const Call& call, const ServedModel& model,
                                             int64_t min_answer = 1);

// Token ids in a JSON array, each inside the vocabulary.
std::optional<std::vector<TokenId>> read_tokens(Fields& fields, std::string_view name, const JsonArray& array,
                                                const tokenizer::Tokenizer& tokenizer);
bool is_token_array(const JsonArray& array);

// Tells texts that cannot fit by their size: one that large is not even tokenized. For many texts make one: it looks
// at the whole vocabulary.
class SizeCheck {
 public:
  explicit SizeCheck(const ServedModel& model);
  // context_length_exceeded
  std::optional<ApiError> operator()(size_t n_bytes, std::string_view param) const;

 private:
  uint32_t n_context_;
  size_t longest_token_ = 1;
};
inline std::optional<ApiError> check_size(size_t n_bytes, const ServedModel& model, std::string_view param) {
  return SizeCheck(model)(n_bytes, param);
}
// context_length_exceeded when prompt and answer do not fit together.
std::optional<ApiError> check_context(const GenerationRequest& request, const ServedModel& model,
                                      std::string_view param);

}  // namespace rocmforge::server
