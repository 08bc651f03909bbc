#include "chat/chat_template.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/log.h"

namespace rocmforge::chat {
namespace {

constexpr std::string_view kKey = "tokenizer.chat_template";
constexpr std::string_view kToolUseKey = "tokenizer.chat_template.tool_use";

constexpr std::string_view kChatMl =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
constexpr std::string_view kPlain = "{{ messages | map(attribute='content') | join('\\n\\n') }}";

// What the variables of a request may not replace: what the engine itself provides.
constexpr std::string_view kReserved[] = {"messages",     "tools",     "documents", "add_generation_prompt",
                                          "bos_token",    "eos_token", "loop",      "raise_exception",
                                          "strftime_now", "namespace", "range",     "dict",
                                          "cycler",       "joiner",    "caller",    "self",
                                          "varargs",      "kwargs"};

// Text that no template contains by itself.
constexpr std::string_view kMarker = "Qx7Marker9zJ";

JsonValue message(std::string_view role, JsonValue content) {
  return JsonObject{{"role", JsonValue(std::string(role))}, {"content", std::move(content)}};
}
JsonValue user() {
  return message("user", "hi");
}
JsonValue marked(std::string_view role) {
  return message(role, std::string(kMarker));
}

JsonArray marked_tools() {
  const JsonObject parameters = {
      {"type", JsonValue("object")}, {"properties", JsonValue(JsonObject{})}, {"required", JsonValue(JsonArray{})}};
  const JsonObject function = {{"name", JsonValue(std::string(kMarker))},
                               {"description", JsonValue("d")},
                               {"parameters", JsonValue(parameters)}};
  return {JsonObject{{"type", JsonValue("function")}, {"function", JsonValue(function)}}};
}

// A conversation with one tool call.
JsonArray call_with(JsonValue arguments) {
  const JsonObject function = {{"name", JsonValue("f")}, {"arguments", std::move(arguments)}};
  const JsonObject call = {
      {"id", JsonValue("call00000")}, {"type", JsonValue("function")}, {"function", JsonValue(function)}};
  JsonObject assistant = {
      {"role", JsonValue("assistant")}, {"content", JsonValue("")}, {"tool_calls", JsonValue(JsonArray{call})}};
  JsonObject result = {{"role", JsonValue("tool")},
                       {"content", JsonValue("r")},
                       {"tool_call_id", JsonValue("call00000")},
                       {"name", JsonValue("f")}};
  return {user(), std::move(assistant), std::move(result)};
}

Result<std::string> read_template(const gguf::Metadata& metadata, std::string_view key) {
  return std::string(TRY(metadata.string(key)));
}

}  // namespace

Result<ChatTemplate::Form> ChatTemplate::parse(std::string text, const jinja::RenderOptions& options) {
  jinja::Template parsed = TRY(jinja::Template::parse(text, options.limits));
  return Form{std::move(text), std::move(parsed), {}};
}

Result<ChatTemplate> ChatTemplate::load(const gguf::Metadata& metadata, ChatVocabulary vocabulary,
                                        const ChatTemplateChoice& choice, const jinja::RenderOptions& options,
                                        const LoadControl& control) {
  const LoadControl limited = control.within(kMaxLoadTime);
  TRY(limited.check());
  Source source = Source::given;
  std::string text;
  if (choice.text) {
    text = *choice.text;
  } else if (!choice.name.empty()) {
    source = Source::model;
    text = TRY(read_template(metadata, fmt::format("{}.{}", kKey, choice.name)));
  } else if (metadata.find(kKey) != nullptr) {
    source = Source::model;
    text = TRY(read_template(metadata, kKey));
  } else if (vocabulary.contains("<|im_start|>") && vocabulary.contains("<|im_end|>")) {
    source = Source::chatml;
    text = kChatMl;
    log(LogLevel::warn,
        "tokenizer: the model has no chat template; its vocabulary has the tokens of ChatML, which is used");
  } else {
    source = Source::plain;
    text = kPlain;
    log(LogLevel::warn, "tokenizer: the model has no chat template; messages are joined as plain text");
  }
  ChatTemplate result(source, TRY(parse(std::move(text), options)), std::move(vocabulary), options);
  if (source == Source::model && choice.name.empty() && metadata.find(kToolUseKey) != nullptr) {
    auto form = parse(TRY(read_template(metadata, kToolUseKey)), options);
    if (form.ok()) {
      result.tool_use_ = std::move(*form);
    } else {
      log(LogLevel::warn, "tokenizer: {} is left out: {}", kToolUseKey, form.error().message);
    }
  }
  result.options_.control = limited;
  result.find_message_form(result.main_);
  if (result.tool_use_) result.find_message_form(*result.tool_use_);
  result.find_capabilities();
  // A rendering that was stopped tells nothing about its template.
  if (auto in_time = limited.check(); !in_time.ok()) return std::move(in_time).error().in("tokenizer: chat template");
  result.options_.control = options.control;
  return result;
}

const ChatTemplate::Form& ChatTemplate::form_for(bool with_tools) const {
  return with_tools && tool_use_ ? *tool_use_ : main_;
}

JsonObject ChatTemplate::base_context() const {
  return {{"bos_token", JsonValue(vocabulary_.bos)}, {"eos_token", JsonValue(vocabulary_.eos)}};
}

Result<std::string> ChatTemplate::render(const ChatRequest& request, const LoadControl& control) const {
  const Form& form = form_for(!request.tools.empty());
  JsonObject context = base_context();
  context.emplace_back("messages", JsonValue(TRY(normalize_messages(request.messages, form.messages))));
  // Not given means undefined: templates that do not ask first would walk over none, which fails.
  if (!request.tools.empty()) context.emplace_back("tools", JsonValue(request.tools));
  context.emplace_back("add_generation_prompt", JsonValue(request.add_generation_prompt));
  if (request.enable_thinking) context.emplace_back("enable_thinking", JsonValue(*request.enable_thinking));
  for (const auto& [name, value] : request.variables) {
    if (std::ranges::find(kReserved, name) != std::end(kReserved)) {
      return Error{ErrorCode::invalid_argument, fmt::format("chat template: the variable '{}' is reserved", name)};
    }
    if (name == "enable_thinking" && request.enable_thinking) continue;
    context.emplace_back(name, value);
  }
  jinja::RenderOptions options = options_;
  options.control = control;
  return form.parsed.render(std::move(context), options);
}

std::optional<std::string> ChatTemplate::try_render(const Form& form, JsonArray messages, JsonObject more) const {
  JsonObject context = base_context();
  context.emplace_back("messages", JsonValue(std::move(messages)));
  context.emplace_back("add_generation_prompt", JsonValue(true));
  for (auto& member : more) context.push_back(std::move(member));
  auto result = form.parsed.render(std::move(context), options_);
  return result.ok() ? std::optional(std::move(*result)) : std::nullopt;
}

bool ChatTemplate::shows_marker(const Form& form, JsonArray messages, JsonObject more) const {
  const auto text = try_render(form, std::move(messages), std::move(more));
  return text && text->find(kMarker) != std::string::npos;
}

void ChatTemplate::find_message_form(Form& form) const {
  const JsonArray parts = {JsonObject{{"type", JsonValue("text")}, {"text", JsonValue(std::string(kMarker))}}};
  const auto as_parts = try_render(form, {message("user", parts)});
  // A template that prints the list itself shows the marker too, in quotes.
  form.messages.part_content = as_parts && as_parts->find(kMarker) != std::string::npos &&
                               as_parts->find(fmt::format("'{}'", kMarker)) == std::string::npos &&
                               as_parts->find(fmt::format("\"{}\"", kMarker)) == std::string::npos;
  form.messages.text_content = shows_marker(form, {marked("user")}) || !form.messages.part_content;
  const JsonObject with_tools = {{"tools", JsonValue(marked_tools())}};
  const JsonObject arguments = {{"a", JsonValue("zQ8Arg")}};
  const auto shows_argument = [&](JsonValue value) {
    const auto text = try_render(form, call_with(std::move(value)), with_tools);
    return text && text->find("zQ8Arg") != std::string::npos;
  };
  form.messages.object_arguments = shows_argument(arguments) || !shows_argument("{\"a\": \"zQ8Arg\"}");
  form.messages.developer_role = shows_marker(form, {marked("developer"), user()});
}

void ChatTemplate::find_capabilities() {
  capabilities_.system = shows_marker(main_, {marked("system"), user()});
  capabilities_.tools = shows_marker(form_for(true), {user()}, {{"tools", JsonValue(marked_tools())}});
  const auto thinking = [&](bool on) { return try_render(main_, {user()}, {{"enable_thinking", JsonValue(on)}}); };
  capabilities_.thinking = thinking(true) != thinking(false);
}

}  // namespace rocmforge::chat
