#pragma once
// What the answer's text must be, as clients of OpenAI, llama.cpp, vLLM and SGLang ask for it: response_format,
// json_schema, grammar, regex, ebnf, guided_* and structured_outputs.

#include <optional>

#include "grammar/compile.h"
#include "server/api/fields.h"
#include "server/api/served_model.h"

namespace rocmforge::server {

struct AskedConstraint {
  std::string param;  // the member that asks
  grammar::Source source;
};

// Refuses in `fields` what is malformed, and two forms at once.
std::optional<AskedConstraint> read_constraint(Fields& fields);

// The same, compiled for the model; refuses what cannot be enforced, naming keyword and JSON pointer.
std::optional<ConstraintChoice> read_constraint(Fields& fields, const ServedModel& model);

}  // namespace rocmforge::server
