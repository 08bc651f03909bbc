#pragma once
// --json-schema, --grammar and --regex of the commands that generate.

#include <memory>
#include <optional>

#include "base/result.h"
#include "engine/token_constraint.h"
#include "engine_commands.h"
#include "grammar/compile.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge::apps {

// Nothing when none was given.
Result<std::optional<grammar::Source>> read_constraint_source(const ConstraintFlags& flags);
// The same, compiled. The tokenizer must outlive what is made.
Result<std::optional<ConstraintChoice>> read_constraint(const ConstraintFlags& flags,
                                                        const tokenizer::Tokenizer& tokenizer);

}  // namespace rocmforge::apps
