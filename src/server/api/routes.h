#pragma once
// One function per route; each answers its Call.

#include "server/api/call.h"

namespace rocmforge::server {

// OpenAI's (chat.cpp, completions.cpp, embeddings.cpp, models.cpp)
void chat_completions(const Call& call);
void completions(const Call& call);
void embeddings(const Call& call);
// Answers a body in the form of /v1/embeddings, in the shape of one API.
enum class EmbeddingShape : uint8_t { openai, ollama, ollama_old };
void embed_texts(const Call& call, const std::shared_ptr<JsonValue>& body, EmbeddingShape shape);
void rerank(const Call& call);  // rerank.cpp; also Jina's and Cohere's
void list_models(const Call& call);
void show_model(const Call& call);  // argument: the name
void load_model(const Call& call);
void unload_model(const Call& call);

// OpenAI's Responses (responses.cpp)
void create_response(const Call& call);
void count_response_tokens(const Call& call);
void show_response(const Call& call);    // argument: the id, perhaps /input_items
void delete_response(const Call& call);  // argument: the id
void cancel_response(const Call& call);  // argument: the id and /cancel

// Anthropic's Messages (messages.cpp)
void create_message(const Call& call);
void count_message_tokens(const Call& call);

// Ollama's (ollama.cpp, ollama_models.cpp)
void ollama_chat(const Call& call);
void ollama_generate(const Call& call);
void ollama_embed(const Call& call);
void ollama_embeddings(const Call& call);
void ollama_show(const Call& call);
void ollama_tags(const Call& call);
void ollama_ps(const Call& call);
void ollama_version(const Call& call);
void ollama_not_done(const Call& call);

// llama.cpp's own (llama_cpp.cpp)
void llama_completion(const Call& call);
void llama_infill(const Call& call);
void llama_props(const Call& call);
void llama_slots(const Call& call);

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
