#pragma once
// The tools of a chat request: `tools`, `tool_choice`, `parallel_tool_calls`, and their older names `functions` and
// `function_call`.

#include <memory>
#include <string>
#include <vector>

#include "chat/message_grammar.h"
#include "chat/tool_set.h"
#include "server/api/fields.h"

namespace rocmforge::server {

struct ToolRequest {
  JsonArray tools;  // in OpenAI's form; none with tool_choice "none"
  chat::CallChoice choice = chat::CallChoice::none;
  std::shared_ptr<const chat::ToolSet> set = std::make_shared<const chat::ToolSet>();
  bool is_parallel = true;
  bool is_old = false;                    // `functions`: the answer has one function_call instead of tool_calls
  std::vector<std::string> ignored = {};  // what of them is not done
};

// A keyword of our own in the schema of a string: the Lark grammar of its text (grammar/schema_keywords.cpp).
inline constexpr const char* kGrammarKeyword = "x-lark";
// The tools as the model is told of them: grammars of texts stand in descriptions.
JsonArray shown_tools(JsonArray tools);

// Refuses in `fields` what is wrong.
ToolRequest read_tools(Fields& fields);

// Messages with `function_call`, and those of the role "function", in the form of today.
void rename_old_calls(JsonArray& messages);

}  // namespace rocmforge::server
