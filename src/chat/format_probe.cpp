#include "chat/format_probe.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/json.h"
#include "chat/message.h"

namespace rocmforge::chat {
namespace {

// The probe: strings with everything that needs care, a number, a boolean, a list and an object.
constexpr std::string_view kNasty = R"({"query": "it's \"q\" \\ {]\nline <b> é", "limit": 3, "exact": true,)"
                                    R"( "tags": ["a", "b"], "filter": {"lang": "de"}})";
constexpr std::string_view kPlain = R"({"query": "q", "limit": 3, "exact": true})";
constexpr std::string_view kFirst = "probe_find", kSecond = "probe_count";
constexpr std::string_view kTools = R"([
  {"type": "function", "function": {"name": "probe_find", "description": "d", "parameters": {"type": "object",
    "properties": {"query": {"type": "string", "description": "d"}, "limit": {"type": "integer", "description": "d"},
      "exact": {"type": "boolean", "description": "d"},
      "tags": {"type": "array", "items": {"type": "string"}, "description": "d"},
      "filter": {"type": "object", "properties": {"lang": {"type": "string"}}, "description": "d"}},
    "required": ["query"]}}},
  {"type": "function", "function": {"name": "probe_count", "description": "d", "parameters": {"type": "object",
    "properties": {"n": {"type": "integer", "description": "d"}}, "required": ["n"]}}}])";

std::optional<double> number_of(const JsonValue& value) {
  if (const auto* n = value.as<int64_t>()) return static_cast<double>(*n);
  if (const auto* n = value.as<uint64_t>()) return static_cast<double>(*n);
  if (const auto* n = value.as<double>()) return *n;
  return std::nullopt;
}

// Equal up to the order of members and the spelling of numbers.
bool is_same(const JsonValue& a, const JsonValue& b) {
  if (const auto x = number_of(a)) return x == number_of(b);
  if (a.state().index() != b.state().index()) return false;
  if (const auto* text = a.as<std::string>()) return *text == *b.as<std::string>();
  if (const auto* flag = a.as<bool>()) return *flag == *b.as<bool>();
  if (const auto* items = a.as<JsonArray>()) return std::ranges::equal(*items, *b.as<JsonArray>(), is_same);
  const auto* members = a.as<JsonObject>();
  if (!members) return true;
  return members->size() == b.as<JsonObject>()->size() && std::ranges::all_of(*members, [&](const auto& member) {
           const JsonValue* other = b.find(member.first);
           return other && is_same(member.second, *other);
         });
}

JsonValue message(std::string_view role, std::string_view content) {
  return JsonObject{{"role", JsonValue(std::string(role))}, {"content", JsonValue(std::string(content))}};
}

struct Probe {
  std::string_view arguments;
  size_t n_calls;
  bool ids_hold_names;

  std::string id(size_t i) const {
    const std::string name(i == 0 ? kFirst : kSecond);
    return ids_hold_names ? "functions." + name + ":" + std::to_string(i) : "probe000" + std::to_string(i);
  }
  std::string_view arguments_of(size_t i) const { return i == 0 ? arguments : R"({"n": 7})"; }

  JsonValue turn() const {
    JsonArray calls;
    for (size_t i = 0; i < n_calls; i++) {
      const JsonObject function = {{"name", JsonValue(std::string(i == 0 ? kFirst : kSecond))},
                                   {"arguments", JsonValue(std::string(arguments_of(i)))}};
      calls.push_back(
          JsonObject{{"id", JsonValue(id(i))}, {"type", JsonValue("function")}, {"function", JsonValue(function)}});
    }
    return JsonObject{
        {"role", JsonValue("assistant")}, {"content", JsonValue("")}, {"tool_calls", JsonValue(std::move(calls))}};
  }
  JsonValue result(size_t i) const {
    return JsonObject{{"role", JsonValue("tool")},
                      {"content", JsonValue("r")},
                      {"tool_call_id", JsonValue(id(i))},
                      {"name", JsonValue(std::string(i == 0 ? kFirst : kSecond))}};
  }
  bool is_recovered(const Message& found) const {
    if (found.calls.size() != n_calls) return false;
    for (size_t i = 0; i < n_calls; i++) {
      const auto arguments_found = parse_json(found.calls[i].arguments);
      if (found.calls[i].name != (i == 0 ? kFirst : kSecond) || !arguments_found.ok()) return false;
      if (!is_same(*arguments_found, *parse_json(arguments_of(i)))) return false;
    }
    return true;
  }
};

struct Rendered {
  std::string prompt, turn;
};

// Calls of the probe take less than 1 KB in every format. Parsing a much longer text 34 times would take long.
constexpr size_t kMaxTurnBytes = 64u << 10;

// What the template writes for the calls, behind the prompt that they answer.
std::optional<Rendered> render(const ChatTemplate& chat_template, const Probe& probe, bool with_results,
                               const LoadControl& control) {
  ChatRequest request;
  request.tools = *parse_tools(kTools);
  request.messages = {message("user", "hi")};
  const auto prompt = chat_template.render(request, control);
  if (!prompt.ok()) return std::nullopt;
  request.messages.push_back(probe.turn());
  if (with_results) {
    for (size_t i = 0; i < probe.n_calls; i++) request.messages.push_back(probe.result(i));
  }
  request.add_generation_prompt = false;
  const auto whole = chat_template.render(request, control);
  if (!whole.ok()) return std::nullopt;
  const auto [end, unused] = std::ranges::mismatch(*prompt, *whole);
  auto n = static_cast<size_t>(end - prompt->begin());
  // Not in the middle of a tag: the prompt may end with another one that begins alike.
  if (const size_t tag = prompt->rfind('<', n); tag < n && prompt->find('>', tag) >= n) n = tag;
  if (whole->size() - n > kMaxTurnBytes) return std::nullopt;
  return Rendered{prompt->substr(0, n), whole->substr(n)};
}

const ToolFormat* recover(const Rendered& rendered, const Probe& probe) {
  static const auto tools = std::make_shared<const ToolSet>(*parse_tools(kTools));
  const ToolFormat* best = nullptr;
  size_t best_content = SIZE_MAX;
  for (const ToolFormat& format : tool_formats()) {
    if (rendered.turn.find(format.signature) == std::string::npos &&
        rendered.prompt.find(format.signature) == std::string::npos) {
      continue;
    }
    const Message found = parse_message(
        rendered.turn,
        {.format = &format, .tools = tools, .control = {}, .prompt_tail = rendered.prompt, .tells_early = false});
    if (!probe.is_recovered(found) || found.content.size() >= best_content) continue;
    best = &format;
    best_content = found.content.size();
  }
  return best;
}

const ToolFormat* by_markers(const std::string& text, const std::function<bool(std::string_view)>& contains) {
  const ToolFormat* best = nullptr;
  size_t best_size = 0;
  for (const ToolFormat& format : tool_formats()) {
    if (format.is_bare || format.is_harmony) continue;
    if (format.body == Body::call_object && text.find("arguments\"") == std::string::npos) continue;
    ToolFormat opening = {.name = format.name, .body = format.body, .reasoning_open = {}, .reasoning_close = {}};
    if (!format.section_open.empty()) opening.section_open = {format.section_open[0]};
    opening.call_open = {format.call_open[0]};
    opening.parameter_open = format.parameter_open;
    size_t size = 0;
    const auto markers = markers_of(opening);
    const bool has_all = std::ranges::all_of(markers, [&](const std::string& marker) {
      size += marker.size();
      return marker.size() < 3 || text.find(marker) != std::string::npos || contains(marker);
    });
    if (!has_all || size <= best_size || size < 6) continue;
    best = &format;
    best_size = size;
  }
  return best;
}

}  // namespace

std::string_view name_of(FoundBy found_by) {
  switch (found_by) {
    case FoundBy::option:
      return "option";
    case FoundBy::probe:
      return "probe";
    case FoundBy::markers:
      return "markers";
    case FoundBy::instruction:
      return "instruction";
  }
  return "";
}

Result<FormatChoice> find_format(const ChatTemplate& chat_template,
                                 const std::function<bool(std::string_view)>& contains, const LoadControl& control) {
  const FormatChoice by_instruction = {find_tool_format("hermes"), FoundBy::instruction};
  const LoadControl limited = control.within(kMaxProbeTime);
  for (const std::string_view arguments : {kNasty, kPlain}) {
    for (const size_t n_calls : {2, 1}) {
      for (const bool ids_hold_names : {false, true}) {
        for (const bool with_results : {false, true}) {
          if (auto in_time = limited.check(); !in_time.ok()) {
            if (in_time.error().code == ErrorCode::cancelled) return std::move(in_time).error().in("chat: tool format");
            continue;
          }
          const Probe probe{arguments, n_calls, ids_hold_names};
          const auto rendered = render(chat_template, probe, with_results, limited);
          if (!rendered || rendered->turn.find(kFirst) == std::string::npos) continue;
          if (const ToolFormat* format = recover(*rendered, probe)) return FormatChoice{format, FoundBy::probe};
        }
      }
    }
  }
  if (!chat_template.capabilities().tools) return by_instruction;
  const ToolFormat* format = by_markers(chat_template.text(), contains);
  return format ? FormatChoice{format, FoundBy::markers} : by_instruction;
}

}  // namespace rocmforge::chat
