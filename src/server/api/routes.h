#pragma once
// What each path does: one function per route, called with a Call that it answers.

#include "server/api/call.h"

namespace rocmforge::server {

// OpenAI's (chat.cpp, completions.cpp, embeddings.cpp, models.cpp)
void chat_completions(const Call& call);
void completions(const Call& call);
void embeddings(const Call& call);
void list_models(const Call& call);
void show_model(const Call& call);  // argument: the name
void load_model(const Call& call);
void unload_model(const Call& call);

// Text and tokens (text.cpp)
void tokenize(const Call& call);
void detokenize(const Call& call);
void apply_template(const Call& call);
void parse_text(const Call& call);    // parse.cpp
void check_schema(const Call& call);  // schema_check.cpp

// Our own (native.cpp)
void generate(const Call& call);
void generate_stream(const Call& call);
void request_status(const Call& call);  // argument: the id
void cancel_request(const Call& call);  // argument: the id

// The server itself (ops.cpp)
void health(const Call& call);
void ready(const Call& call);
void show_metrics(const Call& call);

}  // namespace rocmforge::server
