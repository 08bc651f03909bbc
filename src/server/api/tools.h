#pragma once
// The tools of a chat request: `tools`, `tool_choice`, `parallel_tool_calls`, and their older names `functions` and
// `function_call`.

#include <memory>
#include <string>
#include <vector>

#include "chat/tool_set.h"
#include "server/api/fields.h"

namespace rocmforge::server {

struct ToolRequest {
  JsonArray tools;  // in OpenAI's form; none with tool_choice "none"
  std::shared_ptr<const chat::ToolSet> set = std::make_shared<const chat::ToolSet>();
  bool is_parallel = true;
  bool is_old = false;                    // `functions`: the answer has one function_call instead of tool_calls
  std::vector<std::string> ignored = {};  // what of them is not done
};

// Refuses in `fields` what is wrong, and choices that nothing would enforce.
ToolRequest read_tools(Fields& fields);

// Messages with `function_call`, and those of the role "function", in the form of today.
void rename_old_calls(JsonArray& messages);

}  // namespace rocmforge::server
