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

// Whether a request's body, of any API, asks for something that has to be compiled: that may take seconds.
bool asks_to_compile(const JsonValue& body);

// Refuses in `fields` what is malformed, two forms at once, and what cannot be combined with them.
std::optional<AskedConstraint> read_constraint(Fields& fields);

// The same, compiled for the model; refuses what cannot be enforced, naming keyword and JSON pointer.
std::optional<ConstraintChoice> compile_constraint(Fields& fields, const AskedConstraint& asked,
                                                   const ServedModel& model);
// on_length: "close" brings an answer to a valid end before it reaches the limit of its length, "cut" (the default)
// does not. jump_forward: false asks the model for every token, also where only one text can follow.
void read_constraint_options(Fields& fields, std::optional<ConstraintChoice>& constraint);
// What to say where a model has no constraints, and of a constraint that could not be compiled.
void refuse_constraints(Fields& fields, const std::string& param);
void refuse_constraint(Fields& fields, const std::string& param, const Error& error);

}  // namespace rocmforge::server
