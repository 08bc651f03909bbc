#pragma once
// Jinja templates as Hugging Face renders chat templates: parse once, render with a context of JSON.
//
// The language is that of jinja2 3.1 in its immutable sandbox, with trim_blocks, lstrip_blocks, loop controls,
// `generation` blocks, and the functions raise_exception and strftime_now; docs/templates.md lists what is in it.
// A template cannot reach files, the environment, other templates or any clock but strftime_now.
//
// Threads: a Template is immutable; any number of threads may render it at once.
// Errors: template_syntax, template_runtime, template_raised (raise_exception), template_limit; the message gives the
// line and column.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/json.h"
#include "base/load_control.h"
#include "base/result.h"

namespace rocmforge::jinja {

struct Limits {
  size_t max_source_bytes = 1u << 20;
  size_t max_depth = 64;  // of nested blocks and brackets, and of macros and loops that call themselves
  uint64_t max_steps = 1'000'000;
  size_t max_output_bytes = 8u << 20;
  Duration max_time = std::chrono::milliseconds(250);
};

// The local time, for strftime_now.
std::tm local_time_now();

struct RenderOptions {
  Limits limits;
  Clock clock = system_clock();
  std::function<std::tm()> local_time = local_time_now;
  LoadControl control = {};  // checked regularly; its errors end the rendering
};

struct Program;

class Template {
 public:
  static Result<Template> parse(std::string_view source, const Limits& limits = {});

  // The members of `context`, an object, are the template's variables.
  Result<std::string> render(const JsonValue& context, const RenderOptions& options = {}) const;

 private:
  Template(std::string source, std::shared_ptr<const Program> program);

  std::string source_;
  std::shared_ptr<const Program> program_;
};

// Both at once, for a template that is used once.
Result<std::string> render(std::string_view source, const JsonValue& context, const RenderOptions& options = {});

}  // namespace rocmforge::jinja
