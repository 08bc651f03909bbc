// Reads any bytes as what a model wrote, in every tool format: the same message wherever the text is cut, arguments
// that are an object, and no more text than there was.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "base/utf8.h"
#include "chat/message.h"
#include "chat/pattern.h"

namespace {

constexpr std::string_view kTools = R"([
  {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
    "s": {"type": "string"}, "n": {"type": "number"}, "b": {"type": "boolean"}, "o": {"type": "object"}}}}},
  {"type": "function", "function": {"name": "now"}}])";

std::string shown(const rocmforge::chat::Message& message) {
  rocmforge::JsonWriter w;
  rocmforge::chat::write_message(w, message);
  return w.take();
}

}  // namespace

// Two bytes choose the format and its switches.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rocmforge;
  if (size < 2 || size > 4096) return 0;
  static const auto tools = std::make_shared<const chat::ToolSet>(*chat::parse_tools(kTools));
  const auto formats = chat::tool_formats();
  const chat::ToolFormat& format = formats[data[0] % formats.size()];
  chat::ParserOptions options = {.format = &format, .tools = tools};
  options.tells_early = (data[1] & 1) != 0;
  options.reads_calls = (data[1] & 2) == 0;
  if ((data[1] & 4) != 0 && !format.reasoning_open.empty()) options.prompt_tail = format.reasoning_open[0];
  if ((data[1] & 8) != 0) options.control = chat::markers_of(format);
  const std::string text = to_valid_utf8({reinterpret_cast<const char*>(data) + 2, size - 2});
  const std::string marked = chat::mark_controls(text, options.control);
  const chat::Message whole = chat::parse_message(marked, options);
  const std::string said = shown(whole);
  CHECK(said == shown(chat::parse_message(marked, options, 1)));
  CHECK(said == shown(chat::parse_message(marked, options, 1 + (data[1] >> 4))));
  for (const chat::ToolCall& call : whole.calls) {
    CHECK(!call.name.empty());
    CHECK(options.reads_calls);
    if (options.tells_early) continue;  // what a call that was told says is what the model wrote
    const auto arguments = parse_json(to_valid_utf8(call.arguments));
    CHECK(!arguments.ok() || arguments->as<JsonObject>());
  }
  if (whole.calls.empty()) CHECK(whole.content.size() + whole.reasoning.size() <= text.size() + size);
  return 0;
}
