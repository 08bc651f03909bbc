// Parses any bytes as a template and renders it with a context that has a bit of everything: an error value or a text,
// within the limits, and nothing leaked.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "chat/jinja/template.h"

namespace {

constexpr std::string_view kContext = R"({
  "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": true, "enable_thinking": false,
  "messages": [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "image"}]},
    {"role": "assistant", "content": "<think>hm</think>é世", "reasoning_content": null,
     "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1, "b": [1.5, null]}}}]},
    {"role": "tool", "name": "f", "tool_call_id": "c1", "content": "{\"t\": 21}"}],
  "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters":
    {"type": "object", "properties": {"a": {"type": "string", "enum": ["x", "y"]}}, "required": ["a"]}}}],
  "i": 7, "j": -3, "f": 2.5, "s": "Hello, World\n", "t": "a,b,,c", "ln": [3, 1, 2], "lw": ["b", "A", ""],
  "d": {"a": 1, "items": 2, "name": "n"}, "yes": true, "nothing": null})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rocmforge;
  static const JsonValue context = *parse_json(kContext);
  jinja::RenderOptions options;
  options.limits.max_steps = 20'000;
  options.limits.max_output_bytes = 1u << 18;
  options.limits.max_time = std::chrono::hours(1);  // the steps must bound the work by themselves
  options.local_time = [] { return std::tm{}; };
  const auto result = jinja::render({reinterpret_cast<const char*>(data), size}, context, options);
  if (result.ok()) {
    CHECK(result->size() <= options.limits.max_output_bytes);
  } else {
    CHECK(result.error().message.starts_with("template: "));
  }
  return 0;
}
