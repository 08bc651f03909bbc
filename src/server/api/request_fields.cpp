#include "server/api/request_fields.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "server/api/generation_fields.h"

namespace rocmforge::server {
namespace {

constexpr const char* kCode = "unsupported_feature";

struct Unsupported {
  std::string_view name;
  double neutral = 0;             // the number that asks for nothing
  std::string_view instead = {};  // what to do about it
};

// Members of other servers' generation requests that change the answer: OpenAI's, llama.cpp's, vLLM's.
constexpr Unsupported kGeneration[] = {
    {"audio"},
    // Samplers.
    {"tfs_z", 1},
    {"top_a"},
    {"dynatemp_range"},
    {"smoothing_factor"},
    {"epsilon_cutoff"},
    {"eta_cutoff"},
    {"samplers"},
    {"logits_processors"},
    {"use_beam_search"},
    {"length_penalty", 1},
    {"early_stopping"},
    // Which tokens, and how many.
    {"allowed_token_ids"},
    {"bad_words", 0, "use 'logit_bias'."},
    {"include_stop_str_in_output"},
    {"truncate_prompt_tokens"},
    {"n_probs", 0, "use 'logprobs'."},
    // What else goes into the prompt.
    {"prediction"},
    {"web_search_options"},
    {"documents"},
    {"chat_template"},
    {"continue_final_message"},
    {"lora"},
};
constexpr Unsupported kEmbeddings[] = {{"truncate_prompt_tokens"}};

// Members that are read elsewhere, or that change nothing here. The numbers of a sampler that is off are among them.
constexpr std::string_view kHarmless[] = {
    "model",
    "wait_for_model",
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "parallel_tool_calls",
    "reasoning_effort",
    "reasoning_format",
    "stream_options",
    "dynatemp_exponent",
    "n_keep",
    "id_slot",
    "skip_special_tokens",
    "spaces_between_special_tokens",
};

// An object asks for something even when it is empty: any JSON, a search with its defaults.
bool asks_for_nothing(const JsonValue& value, double neutral) {
  if (const auto* flag = value.as<bool>()) return !*flag;
  if (const auto* text = value.as<std::string>()) return text->empty();
  if (const auto* array = value.as<JsonArray>()) return array->empty();
  const auto number = as_number(value);
  return number && *number == neutral;
}

void refuse_all(Fields& fields, std::span<const Unsupported> table) {
  for (const Unsupported& one : table) {
    const JsonValue* value = fields.find(one.name);
    if (!value || asks_for_nothing(*value, one.neutral)) continue;
    fields.refuse(one.name,
                  one.instead.empty() ? "is not supported." : fmt::format("is not supported; {}", one.instead), kCode);
  }
}

// Tools where there is no conversation. They have further ways to say that nothing is asked for.
void refuse_tools(Fields& fields) {
  const JsonValue* choice = fields.find("tool_choice");
  const std::string* choice_name = choice ? choice->as<std::string>() : nullptr;
  const bool no_tools = choice_name && *choice_name == "none";
  for (const char* name : {"tools", "functions"}) {
    const JsonArray* tools = fields.array(name, kMaxTools);
    if (tools && !tools->empty() && !no_tools) {
      fields.refuse(name, "is not supported here; use /v1/chat/completions.", kCode);
    }
  }
  fields.boolean("parallel_tool_calls");  // without effect while there are no calls
  if (choice && !no_tools && !(choice_name && *choice_name == "auto")) {
    fields.refuse("tool_choice", "can only be \"none\" or \"auto\" here.", kCode);
  }
  if (const JsonValue* call = fields.find("function_call")) {
    const std::string* name = call->as<std::string>();
    if (!name || (*name != "none" && *name != "auto")) {
      fields.refuse("function_call", "can only be \"none\" or \"auto\" here.", kCode);
    }
  }
}

void refuse_formats(Fields& fields) {
  if (const JsonValue* format = fields.find("response_format")) {
    Fields inner(*format, "response_format.");
    const auto type = inner.text("type");
    if (inner.error()) fields.refuse(*inner.error());
    if (!type || (*type != "text" && *type != "json_object" && *type != "json_schema")) {
      fields.refuse("response_format", "can only have the type \"text\", \"json_object\" or \"json_schema\".", kCode);
    }
  }
  const JsonArray* modalities = fields.array("modalities", 16);
  for (const JsonValue& one : modalities ? *modalities : JsonArray{}) {
    const auto* name = one.as<std::string>();
    if (!name || *name != "text") fields.refuse("modalities", "can only hold \"text\".", kCode);
  }
  if (!fields.boolean("skip_special_tokens").value_or(true)) {
    fields.refuse("skip_special_tokens", "can only be true.", kCode);
  }
}

}  // namespace

void refuse_unsupported(Fields& fields, FieldFamily family) {
  switch (family) {
    case FieldFamily::chat:
    case FieldFamily::generate:
      // Completions read these two themselves.
      if (fields.integer("best_of", 1, kMaxChoices).value_or(1) != 1) {
        fields.refuse("best_of", "can only be 1; 'n' gives several answers.", kCode);
      }
      if (const auto suffix = fields.text("suffix"); suffix && !suffix->empty()) {
        fields.refuse("suffix", "is not supported.", kCode);
      }
      if (fields.has("prompt_logprobs")) fields.refuse("prompt_logprobs", "is only for /v1/completions.", kCode);
      [[fallthrough]];
    case FieldFamily::completions:
      if (family != FieldFamily::chat) refuse_tools(fields);
      refuse_formats(fields);
      return refuse_all(fields, kGeneration);
    case FieldFamily::embeddings:
      return refuse_all(fields, kEmbeddings);
    case FieldFamily::text:
      return;
  }
  RF_UNREACHABLE("a FieldFamily outside its enum");
}

std::string ignored_names(const Fields& fields, const std::vector<std::string>& more) {
  std::string out;
  size_t n = 0;
  for (const std::string& name : more) out += (n++ == 0 ? "" : ", ") + name;
  for (const std::string_view name : fields.unread()) {
    if (std::ranges::find(kHarmless, name) != std::end(kHarmless)) continue;
    if (n++ == kMaxIgnoredNames) return out + ", ...";
    if (!out.empty()) out += ", ";
    for (const char c : name.substr(0, kMaxIgnoredNameBytes)) {
      out += (c > ' ' && c < 0x7f && c != ',') ? c : '?';  // what a header can carry, and a list can hold
    }
    if (name.size() > kMaxIgnoredNameBytes) out += "...";
    if (name.empty()) out += "\"\"";
  }
  return out;
}

}  // namespace rocmforge::server
