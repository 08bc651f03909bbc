#include "constraint_flags.h"

#include "base/file.h"
#include "grammar/vocabulary_constraints.h"

namespace rocmforge::apps {

Result<std::optional<grammar::Source>> read_constraint_source(const ConstraintFlags& flags) {
  constexpr uint64_t kMaxBytes = 16u << 20;
  grammar::Source source;
  source.schema.any_order = false;
  if (!flags.json_schema.empty()) {
    source.text = TRY(read_whole_file(flags.json_schema, kMaxBytes));
  } else if (!flags.grammar.empty()) {
    source.notation = grammar::Notation::gbnf;
    source.text = TRY(read_whole_file(flags.grammar, kMaxBytes));
  } else if (!flags.regex.empty()) {
    source.notation = grammar::Notation::regex;
    source.text = flags.regex;
  } else {
    return std::optional<grammar::Source>();
  }
  return std::optional(std::move(source));
}

Result<std::optional<ConstraintChoice>> read_constraint(const ConstraintFlags& flags,
                                                        const tokenizer::Tokenizer& tokenizer) {
  const auto source = TRY(read_constraint_source(flags));
  if (!source) return std::optional<ConstraintChoice>();
  grammar::VocabularyConstraints constraints(tokenizer);
  auto made = TRY(constraints.compile(*source));
  return std::optional(ConstraintChoice{.constraint = std::move(made), .vocabulary = constraints.vocabulary()});
}

}  // namespace rocmforge::apps
