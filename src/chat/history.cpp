#include "chat/history.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

namespace rocmforge::chat {
namespace {

JsonValue* find_member(JsonValue& value, std::string_view key) {
  auto* object = std::get_if<JsonObject>(&value.state());
  if (!object) return nullptr;
  const auto found = std::ranges::find_if(*object, [&](const auto& member) { return member.first == key; });
  return found == object->end() ? nullptr : &found->second;
}

void erase_member(JsonValue& value, std::string_view key) {
  std::erase_if(std::get<JsonObject>(value.state()), [&](const auto& member) { return member.first == key; });
}

void set_member(JsonValue& value, std::string_view key, JsonValue to) {
  if (JsonValue* old = find_member(value, key)) {
    *old = std::move(to);
  } else {
    std::get<JsonObject>(value.state()).emplace_back(std::string(key), std::move(to));
  }
}

std::string text_of(const JsonValue* value) {
  const auto* text = value ? value->as<std::string>() : nullptr;
  return text ? *text : std::string();
}

std::string json_of(const JsonValue& value) {
  JsonWriter w;
  return w.value(value).take();
}

JsonArray* calls_of(JsonValue& message) {
  JsonValue* calls = find_member(message, "tool_calls");
  return calls ? std::get_if<JsonArray>(&calls->state()) : nullptr;
}

std::string name_of_call(JsonValue& call) {
  JsonValue* function = find_member(call, "function");
  return text_of(find_member(function ? *function : call, "name"));
}

// Results say which call they answer; some templates print the name instead.
void name_results(JsonArray& messages) {
  std::map<std::string, std::string> names;
  for (JsonValue& message : messages) {
    if (JsonArray* calls = calls_of(message)) {
      for (JsonValue& call : *calls) {
        if (JsonValue* type = find_member(call, "type"); !type && call.as<JsonObject>()) {
          set_member(call, "type", JsonValue("function"));
        }
        names[text_of(find_member(call, "id"))] = name_of_call(call);
      }
    }
    const auto name = names.find(text_of(find_member(message, "tool_call_id")));
    if (name != names.end() && !find_member(message, "name")) set_member(message, "name", JsonValue(name->second));
  }
}

void map_ids(JsonArray& messages, IdForm form) {
  if (form == IdForm::any) return;
  std::map<std::string, std::string> known;
  size_t n_calls = 0;
  for (JsonValue& message : messages) {
    if (JsonArray* calls = calls_of(message)) {
      for (JsonValue& call : *calls) {
        JsonValue* id = find_member(call, "id");
        if (!call.as<JsonObject>()) continue;
        const std::string old = text_of(id);
        const std::string name = name_of_call(call);
        std::string now = old;
        if (form == IdForm::nine) {
          now = nine_letters_of(old.empty() ? fmt::format("{}{}", name, n_calls) : old);
        } else if (!old.starts_with("functions.")) {
          now = fmt::format("functions.{}:{}", name, n_calls);
        }
        n_calls++;
        known[old] = now;
        set_member(call, "id", JsonValue(now));
      }
    }
    JsonValue* answers = find_member(message, "tool_call_id");
    if (!answers) continue;
    const auto now = known.find(text_of(answers));
    if (now != known.end()) *answers = JsonValue(now->second);
  }
}

// Thoughts under the name that the template reads.
void name_reasoning(JsonArray& messages, const std::string& chat_template) {
  if (chat_template.find("reasoning_content") != std::string::npos) return;
  const char* const name = chat_template.find("thinking") != std::string::npos     ? "thinking"
                           : chat_template.find(".reasoning") != std::string::npos ? "reasoning"
                                                                                   : nullptr;
  if (!name) return;
  for (JsonValue& message : messages) {
    const JsonValue* known = find_member(message, "reasoning_content");
    if (known && known->as<std::string>()) set_member(message, name, JsonValue(*known));
  }
}

// Llama's templates take one call a message.
bool split_calls(JsonArray& messages) {
  JsonArray out;
  bool has_changed = false;
  for (JsonValue& message : messages) {
    JsonArray* calls = calls_of(message);
    if (!calls || calls->size() < 2) {
      out.push_back(std::move(message));
      continue;
    }
    has_changed = true;
    const JsonArray all = *calls;
    for (size_t i = 0; i < all.size(); i++) {
      JsonValue one = message;
      if (i > 0) set_member(one, "content", JsonValue(""));
      set_member(one, "tool_calls", JsonValue(JsonArray{all[i]}));
      out.push_back(std::move(one));
    }
  }
  messages = std::move(out);
  return has_changed;
}

// A type that is a list becomes its first that is not null.
bool reduce_types(JsonValue& value) {
  bool has_changed = false;
  if (auto* array = std::get_if<JsonArray>(&value.state())) {
    for (JsonValue& item : *array) has_changed |= reduce_types(item);
  } else if (auto* object = std::get_if<JsonObject>(&value.state())) {
    for (auto& [key, member] : *object) {
      const auto* types = key == "type" ? member.as<JsonArray>() : nullptr;
      if (!types) {
        has_changed |= reduce_types(member);
        continue;
      }
      const auto first = std::ranges::find_if(*types, [](const JsonValue& one) { return text_of(&one) != "null"; });
      member = first == types->end() ? JsonValue("string") : JsonValue(*first);
      has_changed = true;
    }
  }
  return has_changed;
}

std::string instruction(const JsonArray& tools) {
  std::string out =
      "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function "
      "signatures within <tools></tools> XML tags:\n<tools>";
  for (const JsonValue& tool : tools) out += "\n" + json_of(tool);
  return out +
         "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
         "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": "
         "<args-json-object>}\n</tool_call>";
}

void append_content(JsonValue& message, const std::string& text) {
  JsonValue* content = find_member(message, "content");
  auto* parts = content ? std::get_if<JsonArray>(&content->state()) : nullptr;
  if (parts) {
    parts->push_back(JsonObject{{"type", JsonValue("text")}, {"text", JsonValue(text)}});
    return;
  }
  const std::string old = text_of(content);
  set_member(message, "content", JsonValue(old.empty() ? text : old + "\n" + text));
}

std::string call_text(JsonValue& call) {
  JsonValue* function = find_member(call, "function");
  JsonValue* arguments = find_member(function ? *function : call, "arguments");
  const std::string text = !arguments                     ? "{}"
                           : arguments->as<std::string>() ? *arguments->as<std::string>()
                                                          : json_of(*arguments);
  std::string name;
  append_json_string(name, name_of_call(call));
  return fmt::format("<tool_call>\n{{\"name\": {}, \"arguments\": {}}}\n</tool_call>", name, text);
}

JsonValue message_of(const char* role, std::string text) {
  return JsonObject{{"role", JsonValue(role)}, {"content", JsonValue(std::move(text))}};
}

// For a template that knows no tools: they become text.
void write_as_text(ChatRequest& request, bool has_system) {
  JsonArray out;
  bool after_result = false;
  for (JsonValue& message : request.messages) {
    const std::string role = text_of(find_member(message, "role"));
    if (role == "tool") {
      std::string text = "<tool_response>\n" + text_of(find_member(message, "content")) + "\n</tool_response>";
      if (const JsonValue* content = find_member(message, "content"); content && content->as<JsonArray>()) {
        text = "<tool_response>\n" + json_of(*content) + "\n</tool_response>";
      }
      if (after_result) {
        append_content(out.back(), text);
      } else {
        out.push_back(message_of("user", std::move(text)));
      }
      after_result = true;
      continue;
    }
    after_result = false;
    if (JsonArray* calls = calls_of(message)) {
      std::string text;
      for (JsonValue& call : *calls) text += (text.empty() ? "" : "\n") + call_text(call);
      if (!text.empty()) append_content(message, text);
      erase_member(message, "tool_calls");
    }
    out.push_back(std::move(message));
  }
  if (!request.tools.empty()) {
    const std::string told = instruction(request.tools);
    const std::string first = out.empty() ? "" : text_of(find_member(out[0], "role"));
    if (first == "system" || first == "developer" || (!has_system && first == "user")) {
      append_content(out[0], told);
    } else {
      out.insert(out.begin(), message_of(has_system ? "system" : "user", told));
    }
  }
  request.messages = std::move(out);
  request.tools.clear();
}

}  // namespace

std::string nine_letters_of(const std::string& id) {
  constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  if (id.size() == 9 && id.find_first_not_of(kLetters) == std::string::npos) return id;
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  std::string out;
  for (int i = 0; i < 9; i++, hash /= kLetters.size()) out += kLetters[hash % kLetters.size()];
  return out;
}

Result<std::string> render_chat(const ChatTemplate& chat_template, const ModelFormat& format, ChatRequest request) {
  name_results(request.messages);
  name_reasoning(request.messages, chat_template.text());
  if (format.format) map_ids(request.messages, format.format->id_form);
  if (format.is_told) write_as_text(request, chat_template.capabilities().system);
  auto text = chat_template.render(request);
  if (text.ok()) return text;
  const bool is_split = split_calls(request.messages);
  bool is_reduced = false;
  for (JsonValue& tool : request.tools) is_reduced |= reduce_types(tool);
  if (!is_split && !is_reduced) return text;
  auto repaired = chat_template.render(request);
  return repaired.ok() ? std::move(repaired) : std::move(text);
}

}  // namespace rocmforge::chat
