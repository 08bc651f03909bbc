// POST /v1/schema/check: whether a constraint can be enforced, and what it costs. Takes what a generating request
// takes.

#include <chrono>

#include "server/api/constraint_fields.h"
#include "server/api/routes.h"

namespace rocmforge::server {
namespace {

void check(const Call& call, const JsonValue& body) {
  Fields fields(body);
  std::optional<AskedConstraint> asked = read_constraint(fields);
  if (const JsonValue* schema = fields.find("schema"); schema && !asked) {
    asked = AskedConstraint{.param = "schema", .source = {.text = JsonWriter().value(*schema).take()}};
    asked->source.schema.any_order = false;
  }
  if (!asked && !fields.error())
    fields.refuse("schema", "must be a JSON Schema, or another form of constraint be given.");
  if (fields.error()) return call.refuse(*fields.error());
  const TimePoint start = call.shared->options.clock();
  const auto made = grammar::compile(asked->source);
  JsonWriter w;
  w.begin_object().key("exact").value(made.ok()).key("param").value(asked->param);
  w.key("compile_ms").value(1e3 * seconds(call.shared->options.clock() - start));
  if (made.ok()) {
    w.key("items").value(uint64_t{(*made)->grammar().n_items()});
    w.key("terminals").value(uint64_t{(*made)->grammar().n_terminals()});
  } else {
    w.key("error").begin_object().key("code").value(error_name(made.error().code));
    w.key("message").value(made.error().message).end_object();
  }
  call.respond(200, w.end_object().take());
}

}  // namespace

void check_schema(const Call& call) {
  const auto body = call.read_body();
  if (!body) return;
  const auto work = [call, body] {
    if (!call.is_abandoned()) call.attempt([&] { check(call, *body); });
  };
  call.shared->post_work(work, WorkSize::large);
}

}  // namespace rocmforge::server
