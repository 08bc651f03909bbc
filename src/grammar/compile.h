#pragma once
// Compiles a constraint in any notation, and caches compiled constraints.

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/constraint.h"
#include "grammar/gbnf.h"
#include "grammar/json_schema.h"

namespace rocmforge::grammar {

enum class Notation : uint8_t { json_schema, json_object, gbnf, regex, choice, lark };

struct Source {
  Notation notation = Notation::json_schema;
  std::string text;  // choice: a JSON array of strings; json_object: nothing
  SchemaOptions schema = {};
};

// Adds rules to a grammar that is not finished; returns the rule of the source's texts. Errors: invalid_argument (a
// malformed grammar), unsupported (a part that cannot be enforced exactly), limit_exceeded.
Result<RuleId> add_source(Grammar& grammar, const Source& source, const FindToken& find_token = {});
// Further errors: those of Grammar::finish().
Result<std::shared_ptr<Constraint>> compile(const Source& source, const FindToken& find_token = {},
                                            std::chrono::milliseconds limit = Grammar::kMaxCompileTime);

// A tool of which the constraint enforces less than its schema.
struct Unenforced {
  std::string tool, why;
};

struct Compiled {
  std::shared_ptr<Constraint> constraint;
  std::vector<Unenforced> unenforced = {};
};

// The most recently used constraints of one vocabulary.
//
// Threads: any. Two threads that request the same constraint at once may both compile it.
class ConstraintCache {
 public:
  static constexpr size_t kMaxEntries = 64;
  Result<Compiled> get(const std::string& key, const std::function<Result<Compiled>()>& make);

 private:
  using Entry = std::pair<std::string, Compiled>;

  // With mutex_ held.
  void make_room();
  void drop(std::list<Entry>::iterator entry);

  std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  uint64_t n_key_bytes_ = 0;
  StateMemory keys_;
};

// Equal for equal sources.
std::string cache_key(const Source& source);

}  // namespace rocmforge::grammar
