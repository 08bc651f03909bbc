#pragma once
// Every notation of a constraint, compiled; and a cache of what was.

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

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

// invalid_argument: no grammar, or one without a text. unsupported: not enforced exactly. limit_exceeded.
Result<std::shared_ptr<Constraint>> compile(const Source& source, const FindToken& find_token = {});

// The constraints of one vocabulary that were asked for last.
//
// Threads: any. Two that ask for the same at once may both compile it.
class ConstraintCache {
 public:
  static constexpr size_t kMaxEntries = 64;

  // `find_token` is asked while a grammar is compiled.
  explicit ConstraintCache(FindToken find_token = {}) : find_token_(std::move(find_token)) {}
  Result<std::shared_ptr<Constraint>> get(const Source& source);

 private:
  std::mutex mutex_;
  FindToken find_token_;
  std::list<std::pair<std::string, std::shared_ptr<Constraint>>> entries_;  // the last used first
};

}  // namespace rocmforge::grammar
