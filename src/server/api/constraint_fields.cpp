#include "server/api/constraint_fields.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

namespace rocmforge::server {
namespace {

using grammar::Notation;

constexpr const char* kUnsupported = "unsupported_feature";

// A schema may come as an object or as its text.
std::string json_text(const JsonValue& value) {
  if (const auto* text = value.as<std::string>()) return *text;
  return JsonWriter().value(value).take();
}

bool asks_for_nothing(const JsonValue& value) {
  const auto* text = value.as<std::string>();
  const auto* flag = value.as<bool>();
  return value.is_null() || (text && text->empty()) || (flag && !*flag);
}

class Reader {
 public:
  explicit Reader(Fields& fields) : fields_(fields) {}

  void take(std::string_view name, Notation notation) { take(fields_.find(name), std::string(name), notation); }

  void take(const JsonValue* value, std::string param, Notation notation) {
    if (!value || asks_for_nothing(*value)) return;
    AskedConstraint one{.param = std::move(param), .source = {.notation = notation, .text = {}}};
    one.source.schema.any_order = false;  // clients rely on the schema's order
    const bool is_json = notation == Notation::json_schema || notation == Notation::choice;
    if (notation != Notation::json_object && !is_json && !value->as<std::string>()) {
      return fields_.refuse(one.param, "must be a string.");
    }
    if (notation != Notation::json_object) one.source.text = json_text(*value);
    asked_.push_back(std::move(one));
  }

  void take_response_format() {
    const JsonValue* format = fields_.find("response_format");
    if (!format) return;
    const JsonValue* type = format->find("type");
    const auto* name = type ? type->as<std::string>() : nullptr;
    if (!name || *name == "text") return;              // checked by refuse_unsupported()
    const JsonValue* schema = format->find("schema");  // llama.cpp's form
    std::string param = "response_format.schema";
    if (*name == "json_schema" && format->find("json_schema")) {
      schema = format->find("json_schema")->find("schema");
      param = "response_format.json_schema.schema";
    }
    if (schema && !schema->is_null()) return take(schema, param, Notation::json_schema);
    if (*name == "json_schema") return fields_.refuse("response_format.json_schema.schema", "must be a JSON Schema.");
    static const JsonValue kYes(true);
    take(&kYes, "response_format", Notation::json_object);
  }

  void take_structured_outputs() {
    const JsonValue* value = fields_.find("structured_outputs");
    if (!value) return;
    const auto* members = value->as<JsonObject>();
    if (!members) return fields_.refuse("structured_outputs", "must be an object.");
    for (const auto& [key, member] : *members) {
      const std::string param = "structured_outputs." + key;
      if (asks_for_nothing(member)) continue;
      if (key == "json")
        take(&member, param, Notation::json_schema);
      else if (key == "json_object")
        take(&member, param, Notation::json_object);
      else if (key == "regex")
        take(&member, param, Notation::regex);
      else if (key == "choice")
        take(&member, param, Notation::choice);
      else if (key == "grammar")
        take(&member, param, Notation::gbnf);
      else if (key == "whitespace_pattern")
        take_white_space(&member, param);
      else if (key == "disable_any_whitespace")
        has_white_space_ = !is_true(member, param);
      else
        fields_.refuse(param, "is not supported.", kUnsupported);
    }
  }

  void take_white_space(const JsonValue* pattern, const std::string& param) {
    if (!pattern || asks_for_nothing(*pattern)) return;
    const auto* text = pattern->as<std::string>();
    if (!text) return fields_.refuse(param, "must be a regular expression.");
    white_space_ = *text;
  }

  std::optional<AskedConstraint> result() {
    if (asked_.empty() || fields_.error()) return {};
    asked_[0].source.schema.has_white_space = has_white_space_;
    asked_[0].source.schema.white_space = white_space_;
    if (asked_.size() > 1) {
      fields_.refuse(asked_[1].param, fmt::format("cannot be combined with '{}'.", asked_[0].param), kUnsupported);
      return {};
    }
    return std::move(asked_[0]);
  }

 private:
  bool is_true(const JsonValue& value, const std::string& param) {
    const auto* flag = value.as<bool>();
    if (!flag) fields_.refuse(param, "must be a boolean.");
    return flag && *flag;
  }

  Fields& fields_;
  std::vector<AskedConstraint> asked_;
  bool has_white_space_ = true;
  std::optional<std::string> white_space_;
};

// Members that are constraints, or hold one: of OpenAI's, llama.cpp's, vLLM's and SGLang's clients; Ollama's,
// Anthropic's.
constexpr std::string_view kCompiled[] = {
    "response_format", "json_schema",  "grammar",       "regex",          "ebnf",
    "guided_json",     "guided_regex", "guided_choice", "guided_grammar", "structured_outputs",
    "tools",           "functions",    "format",        "output_config",  "output_format"};

}  // namespace

bool asks_to_compile(const JsonValue& body) {
  const auto* members = body.as<JsonObject>();
  if (!members) return false;
  return std::ranges::any_of(*members, [](const auto& member) {
    const auto& [name, value] = member;
    if (asks_for_nothing(value)) return false;
    if (name == "text") return value.template as<JsonObject>() != nullptr;  // of the Responses API
    return std::ranges::find(kCompiled, name) != std::end(kCompiled);
  });
}

std::optional<AskedConstraint> read_constraint(Fields& fields) {
  Reader reader(fields);
  reader.take_response_format();
  reader.take("json_schema", Notation::json_schema);
  reader.take("grammar", Notation::gbnf);
  reader.take("regex", Notation::regex);
  reader.take("ebnf", Notation::gbnf);
  reader.take("guided_json", Notation::json_schema);
  reader.take("guided_regex", Notation::regex);
  reader.take("guided_choice", Notation::choice);
  reader.take("guided_grammar", Notation::gbnf);
  reader.take_white_space(fields.find("guided_whitespace_pattern"), "guided_whitespace_pattern");
  reader.take_structured_outputs();
  auto asked = reader.result();
  if (const JsonValue* stop = asked ? fields.find("stop") : nullptr; stop && !asks_for_nothing(*stop)) {
    fields.refuse("stop", fmt::format("cannot be combined with '{}', whose text it would cut.", asked->param),
                  kUnsupported);
    return {};
  }
  return asked;
}

void read_constraint_options(Fields& fields, std::optional<ConstraintChoice>& constraint) {
  const auto on_length = fields.text("on_length", 64);
  const bool closes = on_length == "close";
  if (on_length && !closes && on_length != "cut") fields.refuse("on_length", "must be 'close' or 'cut'.");
  const bool jumps = fields.boolean("jump_forward").value_or(true);
  if (!constraint) return;
  constraint->closes_at_length = closes;
  constraint->jumps = jumps;
}

void refuse_constraints(Fields& fields, const std::string& param) {
  fields.refuse(param.substr(0, param.find('.')), "is not supported by this model.", kUnsupported);
}

void refuse_constraint(Fields& fields, const std::string& param, const Error& error) {
  fields.refuse(param, fmt::format("cannot be enforced: {}", error.message),
                error.code == ErrorCode::unsupported ? kUnsupported : "invalid_constraint");
}

std::optional<ConstraintChoice> compile_constraint(Fields& fields, const AskedConstraint& asked,
                                                   const ServedModel& model) {
  if (!model.constrain) {
    refuse_constraints(fields, asked.param);
    return {};
  }
  auto made = model.constrain(asked.source);
  if (made.ok()) return *std::move(made);
  refuse_constraint(fields, asked.param, made.error());
  return {};
}

}  // namespace rocmforge::server
