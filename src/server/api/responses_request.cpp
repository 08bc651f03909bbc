#include "server/api/responses_request.h"

#include <fmt/core.h>

#include <algorithm>

#include "server/api/body_parts.h"
#include "server/api/call.h"
#include "server/api/tools.h"

namespace rocmforge::server {
namespace {

constexpr const char* kCode = "unsupported_feature";
constexpr std::string_view kSeal = "rocmforge.1.";

constexpr RenamedParam kRenamed[] = {
    {"messages", "input"},
    {"max_tokens", "max_output_tokens"},
    {"response_format.json_schema", "text.format"},
    {"response_format", "text.format"},
    {"reasoning_effort", "reasoning.effort"},
};

// Members that mean something in a chat's body and not here.
constexpr std::string_view kOfChats[] = {"messages",        "n",          "functions", "function_call",
                                         "response_format", "max_tokens", "logprobs",  "max_completion_tokens"};

class Reader {
 public:
  Reader(JsonObject body, const ResponsesHistory& history, ResponsesRequest& out)
      : body_(std::move(body)), history_(history), out_(out) {}

  std::optional<ApiError> read() {
    read_flags();
    if (!error_) read_previous();
    if (!error_) read_instructions();
    if (!error_) read_input();
    if (!error_) read_tools();
    if (!error_) read_text();
    if (!error_) read_rest();
    out_.chat = JsonValue(std::move(chat_));
    return std::move(error_);
  }

 private:
  void refuse(std::string param, const std::string& message, std::string code = {}) {
    if (!error_) {
      error_ = ApiError::bad_param(param, fmt::format("'{}' {}", param, message), std::move(code));
    }
  }
  void ignore(std::string name) {
    if (std::ranges::find(out_.ignored, name) == out_.ignored.end()) out_.ignored.push_back(std::move(name));
  }
  void echo(std::string_view key, const JsonValue& value) { out_.echo.emplace_back(std::string(key), value); }

  bool take_flag(std::string_view name, bool otherwise) {
    const JsonValue value = take_member(body_, name);
    if (const auto* flag = value.as<bool>()) return *flag;
    if (!value.is_null()) refuse(std::string(name), "must be true or false.");
    return otherwise;
  }

  void read_flags() {
    out_.is_stored = take_flag("store", true);
    out_.is_background = take_flag("background", false);
    out_.is_stream = take_flag("stream", false);
    chat_.emplace_back("stream", JsonValue(out_.is_stream));
    take_member(body_, "stream_options");  // include_obfuscation
    if (out_.is_background && out_.is_stream) {
      refuse("background", "cannot be combined with 'stream'; ask for the response by its id.", kCode);
    }
    if (out_.is_background && !out_.is_stored) refuse("background", "needs 'store' to be true.");
    for (const char* name : {"conversation", "prompt"}) {
      if (!take_member(body_, name).is_null()) refuse(name, "is not supported; send 'input'.", kCode);
    }
    const JsonValue include = take_member(body_, "include");
    for (const JsonValue& one : include.as<JsonArray>() ? *include.as<JsonArray>() : JsonArray{}) {
      const std::string name = one.as<std::string>() ? *one.as<std::string>() : "";
      if (name == "message.output_text.logprobs") {
        chat_.emplace_back("logprobs", JsonValue(true));
      } else if (name == "reasoning.encrypted_content") {
        out_.seals_reasoning = true;
      } else {
        ignore("include");
      }
    }
    JsonValue top = take_member(body_, "top_logprobs");
    const auto* n = top.as<int64_t>();
    echo("top_logprobs", n ? top : JsonValue(int64_t{0}));
    if (!top.is_null() && !(n && *n == 0)) chat_.emplace_back("top_logprobs", std::move(top));
  }

  // Sent on as they are; clients show them.
  void read_rest() {
    JsonValue most = take_member(body_, "max_output_tokens");
    echo("max_output_tokens", most);
    if (!most.is_null()) chat_.emplace_back("max_tokens", std::move(most));
    echo("max_tool_calls", take_member(body_, "max_tool_calls"));
    const JsonValue truncation = take_member(body_, "truncation");
    if (const auto* how = truncation.as<std::string>(); how && *how != "disabled") ignore("truncation");
    echo("truncation", "disabled");
    const JsonValue reasoning = take_member(body_, "reasoning");
    read_reasoning(reasoning);
    for (const char* name : {"metadata", "user", "prompt_cache_key", "safety_identifier"}) {
      JsonValue value = take_member(body_, name);
      if (std::string_view(name) == "metadata" && value.is_null()) value = JsonObject{};
      echo(name, value);
    }
    take_member(body_, "service_tier");
    take_member(body_, "client_metadata");
    for (const char* name : {"temperature", "top_p"}) {
      const auto found = std::ranges::find(body_, name, &JsonObject::value_type::first);
      if (found != body_.end() && !found->second.is_null()) echo(name, found->second);
    }
    for (auto& [name, value] : body_) {
      if (std::ranges::find(kOfChats, name) != std::end(kOfChats)) {
        ignore(name);
      } else {
        chat_.emplace_back(std::move(name), std::move(value));
      }
    }
  }

  void read_reasoning(const JsonValue& reasoning) {
    JsonObject shown{{"effort", JsonValue()}, {"summary", JsonValue()}};
    if (!reasoning.is_null() && !reasoning.as<JsonObject>()) return refuse("reasoning", "must be an object.");
    if (const std::string* effort = text_in(reasoning, "effort")) {
      shown[0].second = *effort;
      if (*effort == "none") {
        chat_.emplace_back("enable_thinking", JsonValue(false));
      } else {
        chat_.emplace_back("reasoning_effort", JsonValue(*effort));
      }
    }
    echo("reasoning", std::move(shown));
  }

  void read_previous() {
    JsonValue previous = take_member(body_, "previous_response_id");
    echo("previous_response_id", previous);
    if (previous.is_null()) return;
    const auto* id = previous.as<std::string>();
    if (!id) return refuse("previous_response_id", "must be a string.");
    out_.previous = *id;
    const auto conversation = history_.conversation(*id);
    if (!conversation) {
      error_ = ApiError{.status = 404,
                        .message = fmt::format("There is no response '{}', or not all of the conversation before it.",
                                               id->substr(0, 80)),
                        .param = "previous_response_id",
                        .code = "previous_response_not_found"};
      return;
    }
    for (const auto& response : *conversation) {
      for (const auto* items : {&response->input, &response->output}) {
        for (const StoredItem& item : *items) recall(item, "previous_response_id");
      }
    }
  }

  // Adds an item that the server has.
  void recall(const StoredItem& item, const std::string& at) {
    if (!error_) error_ = history_.hold(item.json);
    if (error_) return;
    auto parsed = parse_json(item.json);
    if (parsed.ok()) add_item(std::move(*parsed), at);
  }

  void read_instructions() {
    JsonValue instructions = take_member(body_, "instructions");
    echo("instructions", instructions);
    if (instructions.is_null()) return;
    auto* text = std::get_if<std::string>(&instructions.state());
    if (!text) return refuse("instructions", "must be a string.");
    messages_.insert(messages_.begin(), JsonObject{{"role", JsonValue("system")}, {"content", std::move(*text)}});
  }

  void read_input() {
    JsonValue input = take_member(body_, "input");
    if (auto* text = std::get_if<std::string>(&input.state())) {
      const JsonObject part{{"type", JsonValue("input_text")}, {"text", std::move(*text)}};
      JsonArray content;
      content.emplace_back(part);
      add_new_item(JsonObject{{"type", JsonValue("message")}, {"role", JsonValue("user")}, {"content", content}}, 0);
    } else if (auto* items = array_in(input)) {
      find_references(*items);
      for (size_t i = 0; i < items->size() && !error_; i++) add_new_item(std::move((*items)[i]), i);
    } else {
      refuse("input", "must be a string or an array of items.");
    }
    if (error_) return;
    join_leading_system(messages_);
    chat_.emplace_back("messages", std::move(messages_));
  }

  static bool is_reference(const JsonValue& item) {
    return text_or(item, "type", "") == "item_reference" || (!item.find("type") && !item.find("role"));
  }

  void find_references(const JsonArray& items) {
    std::set<std::string, std::less<>> ids;
    for (const JsonValue& item : items) {
      const std::string* id = text_in(item, "id");
      if (id && is_reference(item)) ids.insert(*id);
    }
    if (!ids.empty()) referred_ = history_.items(ids);
  }

  void add_new_item(JsonValue item, size_t index) {
    const std::string at = fmt::format("input[{}]", index);
    auto* members = object_in(item);
    if (!members) return refuse(at, "must be an object.");
    if (is_reference(item)) {
      const std::string* id = text_in(item, "id");
      const auto found = id ? referred_.find(*id) : referred_.end();
      if (found == referred_.end()) {
        return refuse(at + ".id", "names no item that this server holds.", "item_not_found");
      }
      recall(*found->second, at);
      if (!error_ && out_.is_stored) out_.input.push_back(*found->second);
      return;
    }
    const std::string* id = text_in(item, "id");
    const std::string made = id && !id->empty() ? *id : make_id(prefix_of(text_or(item, "type", "message")), '_');
    if (!id) members->emplace_back("id", made);
    if (!item.find("type")) members->emplace_back("type", "message");
    if (out_.is_stored) out_.input.push_back({made, json_of(item)});
    add_item(std::move(item), at);
  }

  static std::string_view prefix_of(std::string_view type) {
    if (type == "function_call") return "fc";
    if (type == "custom_tool_call") return "ctc";
    if (type == "reasoning") return "rs";
    return "msg";
  }

  void add_item(JsonValue item, const std::string& at) {
    const std::string type = text_or(item, "type", "message");
    if (type == "message") return add_message(std::move(item), at);
    if (type == "function_call" || type == "custom_tool_call") return add_call(item, type == "custom_tool_call", at);
    if (type == "function_call_output" || type == "custom_tool_call_output") return add_output(std::move(item), at);
    if (type == "reasoning") return add_reasoning(item);
    ignore("input.type");
  }

  void add_message(JsonValue item, const std::string& at) {
    const std::string role = text_or(item, "role", "");
    JsonObject* members = object_in(item);
    JsonValue content = take_member(*members, "content");
    if (auto* parts = array_in(content)) {
      for (JsonValue& part : *parts) rename_part(part);
    } else if (!content.as<std::string>()) {
      return refuse(at + ".content", "must be a string or an array of parts.");
    }
    JsonObject message{{"role", JsonValue(role)}, {"content", std::move(content)}};
    if (role == "assistant") take_reasoning(message);
    messages_.emplace_back(std::move(message));
  }

  static void rename_part(JsonValue& part) {
    const std::string type = text_or(part, "type", "");
    JsonObject* members = object_in(part);
    if (!members) return;
    if (type == "refusal") {
      JsonValue text = take_member(*members, "refusal");
      part = JsonObject{{"type", JsonValue("text")}, {"text", std::move(text)}};
    } else if (type == "input_text" || type == "output_text") {
      JsonValue text = take_member(*members, "text");
      part = JsonObject{{"type", JsonValue("text")}, {"text", std::move(text)}};
    }
  }

  void take_reasoning(JsonObject& message) {
    if (reasoning_.empty()) return;
    message.emplace_back("reasoning_content", JsonValue(std::exchange(reasoning_, {})));
  }

  void add_call(const JsonValue& item, bool is_custom, const std::string& at) {
    const std::string* name = text_in(item, "name");
    if (!name) return refuse(at + ".name", "must be a string.");
    const std::string* arguments = text_in(item, is_custom ? "input" : "arguments");
    if (!arguments) return refuse(at + (is_custom ? ".input" : ".arguments"), "must be a string.");
    std::string text = *arguments;
    if (is_custom) text = json_of(JsonObject{{"input", JsonValue(*arguments)}});
    JsonObject function{{"name", JsonValue(*name)}, {"arguments", JsonValue(std::move(text))}};
    JsonValue call = JsonObject{{"id", JsonValue(text_or(item, "call_id", ""))},
                                {"type", JsonValue("function")},
                                {"function", std::move(function)}};
    JsonObject* last = messages_.empty() ? nullptr : object_in(messages_.back());
    if (!last || text_or(messages_.back(), "role", "") != "assistant" || !reasoning_.empty()) {
      JsonObject message{{"role", JsonValue("assistant")}, {"content", JsonValue()}};
      take_reasoning(message);
      messages_.emplace_back(std::move(message));
      last = object_in(messages_.back());
    }
    auto calls = std::ranges::find(*last, "tool_calls", &JsonObject::value_type::first);
    if (calls == last->end()) calls = last->insert(last->end(), {"tool_calls", JsonArray{}});
    array_in(calls->second)->push_back(std::move(call));
  }

  void add_output(JsonValue item, const std::string& at) {
    JsonValue output = take_member(*object_in(item), "output");
    if (auto* parts = array_in(output)) {
      for (JsonValue& part : *parts) rename_part(part);
    } else if (!output.as<std::string>()) {
      return refuse(at + ".output", "must be a string or an array of parts.");
    }
    messages_.emplace_back(JsonObject{{"role", JsonValue("tool")},
                                      {"tool_call_id", JsonValue(text_or(item, "call_id", ""))},
                                      {"content", std::move(output)}});
  }

  // Stands before what the model then said.
  void add_reasoning(const JsonValue& item) {
    std::string text;
    for (const char* key : {"content", "summary"}) {
      const JsonValue* parts = item.find(key);
      const auto* array = parts ? parts->as<JsonArray>() : nullptr;
      for (const JsonValue& part : array ? *array : JsonArray{}) text += text_or(part, "text", "");
      if (!text.empty()) break;
    }
    const std::string* sealed = text_in(item, "encrypted_content");
    if (text.empty() && sealed) text = unseal(*sealed).value_or("");
    reasoning_ += text;
  }

  void read_tools() {
    JsonValue tools = take_member(body_, "tools");
    const JsonValue choice = take_member(body_, "tool_choice");
    JsonValue parallel = take_member(body_, "parallel_tool_calls");
    echo("parallel_tool_calls", parallel.is_null() ? JsonValue(true) : parallel);
    echo("tool_choice", choice.is_null() ? JsonValue("auto") : choice);
    echo("tools", tools.is_null() ? JsonValue(JsonArray{}) : tools);
    if (!tools.is_null() && !array_in(tools)) return refuse("tools", "must be an array.");
    JsonArray functions;
    if (auto* list = array_in(tools)) {
      for (size_t i = 0; i < list->size() && !error_; i++) {
        if (auto tool = function_of(std::move((*list)[i]), fmt::format("tools[{}]", i))) {
          functions.push_back(std::move(*tool));
        }
      }
    }
    if (error_) return;
    const bool has_tools = !functions.empty();
    if (has_tools) chat_.emplace_back("tools", std::move(functions));
    if (has_tools && !parallel.is_null()) chat_.emplace_back("parallel_tool_calls", std::move(parallel));
    read_choice(choice, has_tools);
  }

  // In the form of a chat's tool; nothing where it is of a type that is not offered.
  std::optional<JsonValue> function_of(JsonValue tool, const std::string& at) {
    JsonObject* members = object_in(tool);
    if (!members) {
      refuse(at, "must be an object.");
      return {};
    }
    const JsonValue type_value = take_member(*members, "type");
    const std::string type = type_value.as<std::string>() ? *type_value.as<std::string>() : "";
    if (type == "custom") return custom_tool(tool, at);
    if (type != "function") {
      ignore("tools.type");
      return {};
    }
    if (JsonValue nested = take_member(*members, "function"); object_in(nested)) tool = std::move(nested);
    const std::string* name = text_in(tool, "name");
    if (!name || name->empty()) {
      refuse(at + ".name", "must be a string that is not empty.");
      return {};
    }
    return JsonObject{{"type", JsonValue("function")}, {"function", std::move(tool)}};
  }

  // A tool whose input is text: the model is given a function with one text. Its grammar is told to the model in
  // words, and enforced.
  std::optional<JsonValue> custom_tool(const JsonValue& tool, const std::string& at) {
    const std::string* name = text_in(tool, "name");
    if (!name || name->empty()) {
      refuse(at + ".name", "must be a string that is not empty.");
      return {};
    }
    std::string description = text_or(tool, "description", "");
    JsonObject input{{"type", JsonValue("string")}, {"description", JsonValue("The whole input, as text.")}};
    if (const JsonValue* format = tool.find("format"); format && text_or(*format, "type", "") == "grammar") {
      const std::string syntax = text_or(*format, "syntax", "lark"), definition = text_or(*format, "definition", "");
      description += fmt::format("\n\nThe input follows this grammar ({}):\n{}", syntax, definition);
      if (syntax == "regex") {
        input.emplace_back("pattern", fmt::format("^(?:{})$", definition));
      } else if (syntax == "lark") {
        input.emplace_back(kGrammarKeyword, definition);
      } else {
        ignore("tools.format");
      }
    }
    out_.custom_tools.insert(*name);
    JsonArray required;
    required.emplace_back("input");
    JsonObject parameters{{"type", JsonValue("object")},
                          {"properties", JsonObject{{"input", std::move(input)}}},
                          {"required", std::move(required)}};
    JsonObject function{{"name", JsonValue(*name)},
                        {"description", JsonValue(std::move(description))},
                        {"parameters", std::move(parameters)}};
    return JsonObject{{"type", JsonValue("function")}, {"function", std::move(function)}};
  }

  void read_choice(const JsonValue& choice, bool has_tools) {
    if (choice.is_null()) return;
    const auto* name = choice.as<std::string>();
    if (!has_tools) {
      if (name && (*name == "auto" || *name == "none")) return;
      return ignore("tool_choice");  // there is nothing to choose from
    }
    const std::string type = text_or(choice, "type", "");
    if (type == "function" || type == "custom") {
      const std::string* wanted = text_in(choice, "name");
      if (!wanted) return refuse("tool_choice.name", "must be a string.");
      chat_.emplace_back("tool_choice", JsonObject{{"type", JsonValue("function")},
                                                   {"function", JsonObject{{"name", JsonValue(*wanted)}}}});
    } else if (name || type == "allowed_tools") {
      chat_.emplace_back("tool_choice", choice);
    } else {
      ignore("tool_choice");  // a tool of a type that was skipped
    }
  }

  void read_text() {
    JsonValue text = take_member(body_, "text");
    JsonObject shown{{"format", JsonObject{{"type", JsonValue("text")}}}};
    if (!text.is_null()) {
      JsonObject* members = object_in(text);
      if (!members) return refuse("text", "must be an object.");
      JsonValue format = take_member(*members, "format");
      const JsonValue verbosity = take_member(*members, "verbosity");
      if (!format.is_null()) {
        shown[0].second = format;
        add_format(std::move(format));
      }
      if (!verbosity.is_null()) shown.emplace_back("verbosity", verbosity);
    }
    echo("text", std::move(shown));
  }

  void add_format(JsonValue format) {
    JsonObject* members = object_in(format);
    const std::string type = text_or(format, "type", "");
    if (!members || type.empty()) return refuse("text.format", "must be an object with a type.");
    if (type != "json_schema") {
      chat_.emplace_back("response_format", std::move(format));
      return;
    }
    chat_.emplace_back("response_format",
                       JsonObject{{"type", JsonValue("json_schema")}, {"json_schema", std::move(format)}});
  }

  JsonObject body_;
  const ResponsesHistory& history_;
  ResponsesRequest& out_;
  std::optional<ApiError> error_;
  ResponseStore::Items referred_;
  JsonObject chat_;
  JsonArray messages_;
  std::string reasoning_;
};

}  // namespace

std::optional<ApiError> read_responses(JsonObject body, const ResponsesHistory& history, ResponsesRequest& out) {
  return Reader(std::move(body), history, out).read();
}

ApiError responses_error(ApiError error) {
  return rename_param(std::move(error), kRenamed);
}

std::string seal(std::string_view text) {
  return std::string(kSeal).append(text);
}

std::optional<std::string> unseal(std::string_view sealed) {
  if (!sealed.starts_with(kSeal)) return {};
  return std::string(sealed.substr(kSeal.size()));
}

}  // namespace rocmforge::server
