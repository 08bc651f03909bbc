#include "chat/tool_format.h"

#include <algorithm>

namespace rocmforge::chat {
namespace {

std::vector<ToolFormat> make_formats() {
  const ToolFormat::Markers mistral_open = {"[THINK]", "<think>"}, mistral_close = {"[/THINK]", "</think>"};
  const ToolFormat::Markers command_open = {"<|START_THINKING|>"}, command_close = {"<|END_THINKING|>"};
  std::vector<ToolFormat> out = {
      {.name = "apertus",
       .section_open = {"<|tools_prefix|>"},
       .section_close = {"<|tools_suffix|>"},
       .needs_section = true,
       .is_array = true,
       .call_open = {""},
       .name_is_key = true,
       .reasoning_open = {"<|inner_prefix|>"},
       .reasoning_close = {"<|inner_suffix|>"}},
      {.name = "command-r7b",
       .section_open = {"<|START_ACTION|>"},
       .section_close = {"<|END_ACTION|>"},
       .needs_section = true,
       .is_array = true,
       .call_open = {""},
       .reasoning_open = command_open,
       .reasoning_close = command_close,
       .dropped = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"}},
      {.name = "deepseek-dsml-v3.2",
       .body = Body::tagged,
       .section_open = {"<｜DSML｜function_calls>"},
       .section_close = {"</｜DSML｜function_calls>"},
       .call_open = {"<｜DSML｜invoke~name=\"%N\">"},
       .call_close = {"</｜DSML｜invoke>"},
       .parameter_open = "<｜DSML｜parameter~name=\"%K\"~string=\"%T\">",
       .parameter_close = "</｜DSML｜parameter>",
       .signature = "function_calls>"},
      {.name = "deepseek-dsml-v4",
       .body = Body::tagged,
       .section_open = {"<｜DSML｜tool_calls>"},
       .section_close = {"</｜DSML｜tool_calls>"},
       .call_open = {"<｜DSML｜invoke~name=\"%N\">"},
       .call_close = {"</｜DSML｜invoke>"},
       .parameter_open = "<｜DSML｜parameter~name=\"%K\"~string=\"%T\">",
       .parameter_close = "</｜DSML｜parameter>",
       .signature = "tool_calls>"},
      {.name = "deepseek-v3",
       .body = Body::json,
       .section_open = {"<｜tool▁calls▁begin｜>"},
       .section_close = {"<｜tool▁calls▁end｜>"},
       .call_open = {"<｜tool▁call▁begin｜>function<｜tool▁sep｜>%N~```json~"},
       .call_close = {"~```~<｜tool▁call▁end｜>", "<｜tool▁call▁end｜>", "~```"}},
      {.name = "deepseek-v3.1",
       .body = Body::json,
       .section_open = {"<｜tool▁calls▁begin｜>"},
       .section_close = {"<｜tool▁calls▁end｜>"},
       .call_open = {"<｜tool▁call▁begin｜>%N<｜tool▁sep｜>"},
       .call_close = {"<｜tool▁call▁end｜>"}},
      {.name = "functionary-3.1", .body = Body::json, .call_open = {"<function=%N>"}, .call_close = {"</function>"}},
      {.name = "functionary-3.2",
       .body = Body::json,
       .call_open = {">>>%N\n"},
       .start_prefix = ">>>",
       .dropped = {">>>all\n"}},
      {.name = "functiongemma",
       .body = Body::literal,
       .call_open = {"<start_function_call>call:%N"},
       .call_close = {"<end_function_call>"},
       .quote = "<escape>"},
      {.name = "gemma-4",
       .body = Body::literal,
       .call_open = {"<|tool_call>call:%N"},
       .call_close = {"<tool_call|>"},
       .quote = "<|\"|>",
       .reasoning_open = {"<|channel>thought"},
       .reasoning_close = {"<channel|>"}},
      {.name = "gigachat-3", .call_open = {"<|function_call|>"}, .call_close = {}, .signature = "<|function_call|>"},
      {.name = "glm-4.5",
       .body = Body::tagged,
       .call_open = {"<tool_call>~%N"},
       .call_close = {"</tool_call>"},
       .parameter_open = "<arg_key>%K</arg_key>~<arg_value>",
       .parameter_close = "</arg_value>",
       .signature = "</arg_key>\n<arg_value>"},
      {.name = "glm-4.7",
       .body = Body::tagged,
       .call_open = {"<tool_call>~%N"},
       .call_close = {"</tool_call>"},
       .parameter_open = "<arg_key>%K</arg_key>~<arg_value>",
       .parameter_close = "</arg_value>",
       .signature = "</arg_key><arg_value>"},
      {.name = "gpt-oss",
       .body = Body::json,
       .call_close = {"<|call|>", "<|end|>", "<|return|>"},
       .is_harmony = true,
       .reasoning_open = {},
       .reasoning_close = {"<|end|>", "<|return|>", "<|call|>"},
       .dropped = {"<|end|>", "<|return|>", "<|call|>"}},
      {.name = "granite-3",
       .section_open = {"<|tool_call|>"},
       .needs_section = true,
       .is_array = true,
       .call_open = {""},
       .dropped = {"<response>", "</response>"},
       .signature = "<|tool_call|>"},
      {.name = "hermes", .call_open = {"<tool_call>~"}, .call_close = {"</tool_call>"}},
      {.name = "hy3",
       .body = Body::tagged,
       .section_open = {"<tool_calls:opensource>"},
       .section_close = {"</tool_calls:opensource>"},
       .call_open = {"<tool_call:opensource>~%N~<tool_sep:opensource>"},
       .call_close = {"</tool_call:opensource>"},
       .parameter_open = "<arg_key:opensource>%K</arg_key:opensource>~<arg_value:opensource>",
       .parameter_close = "</arg_value:opensource>",
       .reasoning_open = {"<think:opensource>", "<think>"},
       .reasoning_close = {"</think:opensource>", "</think>"}},
      {.name = "kimi-k2",
       .body = Body::json,
       .section_open = {"<|tool_calls_section_begin|>"},
       .section_close = {"<|tool_calls_section_end|>"},
       .call_open = {"<|tool_call_begin|>~%I~<|tool_call_argument_begin|>"},
       .call_close = {"<|tool_call_end|>"},
       .id_form = IdForm::name_and_index},
      {.name = "kimi-k3",
       .body = Body::tagged,
       .section_open = {"<|open|>tools<|sep|>"},
       .section_close = {"<|close|>tools<|sep|>"},
       .call_open = {"<|open|>call tool=\"%N\" index=\"%I\"<|sep|>"},
       .call_close = {"<|close|>call<|sep|>"},
       .parameter_open = "<|open|>argument key=\"%K\" type=\"%T\"<|sep|>",
       .parameter_close = "<|close|>argument<|sep|>",
       .reasoning_open = {"<|open|>think<|sep|>"},
       .reasoning_close = {"<|close|>think<|sep|>"},
       .dropped = {"<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"}},
      {.name = "lfm2",
       .body = Body::python,
       .section_open = {"<|tool_call_start|>"},
       .section_close = {"<|tool_call_end|>"},
       .needs_section = true,
       .is_array = true,
       .call_open = {"%N("}},
      {.name = "llama3-json", .section_open = {"<|python_tag|>"}, .call_open = {""}, .separator = ";", .is_bare = true},
      {.name = "minicpm5",
       .body = Body::tagged,
       .call_open = {"<function~name=\"%N\">"},
       .call_close = {"</function>"},
       .parameter_open = "<param~name=\"%K\">",
       .parameter_close = "</param>"},
      {.name = "minimax-m2",
       .body = Body::tagged,
       .section_open = {"<minimax:tool_call>"},
       .section_close = {"</minimax:tool_call>"},
       .call_open = {"<invoke~name=\"%N\">"},
       .call_close = {"</invoke>"},
       .parameter_open = "<parameter~name=\"%K\">",
       .parameter_close = "</parameter>"},
      {.name = "mistral-args",
       .body = Body::json,
       .call_open = {"[TOOL_CALLS]~%N~[ARGS]"},
       .call_close = {"```"},
       .id_form = IdForm::nine,
       .reasoning_open = mistral_open,
       .reasoning_close = mistral_close},
      {.name = "mistral-array",
       .section_open = {"[TOOL_CALLS]"},
       .needs_section = true,
       .is_array = true,
       .call_open = {""},
       .id_follows = true,
       .id_form = IdForm::nine,
       .reasoning_open = mistral_open,
       .reasoning_close = mistral_close},
      {.name = "mistral-call-id",
       .body = Body::json,
       .call_open = {"[TOOL_CALLS]~%N[CALL_ID]%I[ARGS]", "[TOOL_CALLS]~%N[ARGS]"},
       .call_close = {"```"},
       .id_form = IdForm::nine,
       .reasoning_open = mistral_open,
       .reasoning_close = mistral_close,
       .signature = "[CALL_ID]"},
      {.name = "nemotron-nano-v2",
       .section_open = {"<TOOLCALL>"},
       .section_close = {"</TOOLCALL>"},
       .needs_section = true,
       .is_array = true,
       .call_open = {""}},
      {.name = "olmo3",
       .body = Body::python,
       .section_open = {"<function_calls>"},
       .section_close = {"</function_calls>"},
       .needs_section = true,
       .call_open = {"%N("}},
      {.name = "phi-4-mini",
       .section_open = {"functools", "<|tool_call|>"},
       .section_close = {"<|/tool_call|>"},
       .needs_section = true,
       .is_array = true,
       .call_open = {""}},
      {.name = "pythonic",
       .body = Body::python,
       .section_open = {"<|python_start|>"},
       .section_close = {"<|python_end|>"},
       .is_array = true,
       .call_open = {"%N("},
       .is_bare = true},
      {.name = "qwen3-coder",
       .body = Body::tagged,
       .call_open = {"<tool_call>~<function=%N>", "<function=%N>"},
       .call_close = {"</function>", "</tool_call>"},
       .parameter_open = "<parameter=%K>",
       .parameter_close = "</parameter>",
       .has_value_lines = true,
       .signature = "<tool_call>"},
      {.name = "seed-oss",
       .body = Body::tagged,
       .call_open = {"<seed:tool_call>~<function=%N>", "<function=%N>"},
       .call_close = {"</function>", "</seed:tool_call>"},
       .parameter_open = "<parameter=%K>",
       .parameter_close = "</parameter>",
       .reasoning_open = {"<seed:think>"},
       .reasoning_close = {"</seed:think>"},
       .signature = "<seed:tool_call>"},
      {.name = "solar-open",
       .body = Body::json,
       .section_open = {"<|tool_calls|>"},
       .section_close = {"<|calls|>"},
       .call_open = {"<|tool_call:begin|>~%I~<|tool_call:name|>~%N~<|tool_call:args|>"},
       .call_close = {"<|tool_call:end|>"},
       .reasoning_open = {"<|think|>"},
       .reasoning_close = {"<|end|>"},
       .dropped = {"<|content|>", "<|end|>", "<|begin|>assistant"}},
      {.name = "tool-calls-array",
       .section_open = {"<tool_calls>"},
       .section_close = {"</tool_calls>"},
       .needs_section = true,
       .is_array = true,
       .call_open = {""},
       .dropped = {"[BEGIN FINAL RESPONSE]", "[END FINAL RESPONSE]"}},
  };
  return out;
}

}  // namespace

std::span<const ToolFormat> tool_formats() {
  static const std::vector<ToolFormat> formats = make_formats();
  return formats;
}

const ToolFormat* find_tool_format(std::string_view name) {
  const auto formats = tool_formats();
  const auto found = std::ranges::find_if(formats, [&](const ToolFormat& one) { return one.name == name; });
  return found == formats.end() ? nullptr : &*found;
}

std::vector<std::string> markers_of(const ToolFormat& format) {
  std::vector<std::string> out;
  const auto add = [&](std::string_view marker) {
    std::string piece;
    for (size_t i = 0; i < marker.size(); i++) {
      const bool is_place = marker[i] == '%' && i + 1 < marker.size();
      if (!is_place && marker[i] != '~') {
        piece += marker[i];
        continue;
      }
      if (!piece.empty()) out.push_back(std::move(piece));
      piece.clear();
      i += is_place ? 1 : 0;
    }
    if (!piece.empty()) out.push_back(std::move(piece));
  };
  for (const auto* list : {&format.section_open, &format.section_close, &format.call_open, &format.call_close,
                           &format.reasoning_open, &format.reasoning_close, &format.dropped}) {
    for (const std::string_view marker : *list) add(marker);
  }
  for (const std::string_view marker :
       {format.separator, format.parameter_open, format.parameter_close, format.quote}) {
    add(marker);
  }
  if (format.is_harmony) {
    for (const char* marker : {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>"}) out.emplace_back(marker);
  }
  return out;
}

}  // namespace rocmforge::chat
