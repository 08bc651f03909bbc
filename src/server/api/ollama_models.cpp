// Ollama's GET /api/tags, GET /api/ps, GET /api/version, POST /api/show, and what changes its store of models

#include "server/api/ollama_models.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "server/api/body_parts.h"
#include "server/api/infill.h"
#include "server/api/routes.h"
#include "server/api/sha256.h"
#include "server/api/state_names.h"
#include "server/api/times.h"

namespace rocmforge::server {
namespace {

constexpr std::string_view kLatest = ":latest";
// Whose API this is: clients ask for a version that has what they need.
constexpr std::string_view kApiVersion = "0.12.0";

// "8.0B"
std::string size_name(uint64_t n_parameters) {
  const auto n = static_cast<double>(n_parameters);
  return n >= 1e9 ? fmt::format("{:.1f}B", n / 1e9) : fmt::format("{:.1f}M", n / 1e6);
}

void write_details(JsonWriter& w, const ModelEntry& entry) {
  const ModelFacts facts = entry.facts.value_or(ModelFacts{});
  w.begin_object().key("parent_model").value("").key("format").value("gguf").key("family").value(facts.architecture);
  w.key("families").begin_array();
  if (!facts.architecture.empty()) w.value(facts.architecture);
  w.end_array().key("parameter_size").value(facts.n_parameters == 0 ? "" : size_name(facts.n_parameters));
  w.key("quantization_level").value(facts.file_type).end_object();
}

// Tells files apart; it is no digest of their bytes.
std::string digest_of(const ModelEntry& entry) {
  return to_hex(sha256(fmt::format("{}\n{}\n{}", entry.name, entry.file_bytes, entry.modified_seconds)));
}

void write_entry(JsonWriter& w, const ModelEntry& entry) {
  const std::string name = tagged_name(entry.name);
  w.key("name").value(name).key("model").value(name);
  w.key("modified_at").value(rfc3339(entry.modified_seconds)).key("size").value(entry.file_bytes);
  w.key("digest").value(digest_of(entry)).key("details");
  write_details(w, entry);
}

// Encoders write no text: their architectures are bert, nomic-bert, gemma-embedding, llama-embed, t5encoder and the
// like.
bool is_encoder(std::string_view architecture) {
  return architecture.find("bert") != architecture.npos || architecture.find("embed") != architecture.npos ||
         architecture.ends_with("encoder");
}

const ModelEntry* find_entry(const std::vector<ModelEntry>& entries, std::string_view name) {
  auto found = std::ranges::find(entries, name, &ModelEntry::name);
  if (found == entries.end() && name.ends_with(kLatest)) {
    found = std::ranges::find(entries, name.substr(0, name.size() - kLatest.size()), &ModelEntry::name);
  }
  return found == entries.end() ? nullptr : &*found;
}

// `model`: where it is loaded; more is known of it then.
void show(const Call& call, const ModelEntry& entry, const ServedModel* model) {
  const ModelFacts facts = entry.facts.value_or(ModelFacts{});
  JsonWriter w;
  w.begin_object().key("modelfile").value("").key("parameters").value("").key("template");
  w.value(model ? model->chat_template->text() : "").key("details");
  write_details(w, entry);
  w.key("model_info").begin_object().key("general.architecture").value(facts.architecture);
  if (entry.facts) {
    w.key("general.parameter_count").value(facts.n_parameters);
    w.key(facts.architecture + ".context_length").value(facts.n_context_train);
    w.key(facts.architecture + ".embedding_length").value(facts.width);
    w.key(facts.architecture + ".vocab_size").value(facts.n_vocab);
  }
  w.end_object().key("capabilities").begin_array();
  if (!is_encoder(facts.architecture)) {
    w.value("completion");
    if (facts.chat_template == "roles") w.value("tools");
    if (model && model->chat_template->capabilities().thinking) w.value("thinking");
    if (model && can_infill(*model->tokenizer)) w.value("insert");
  }
  w.value("embedding").end_array();
  call.respond(200, w.key("modified_at").value(rfc3339(entry.modified_seconds)).end_object().take());
}

}  // namespace

std::string tagged_name(const std::string& name) {
  return name.find(':') == std::string::npos ? name + std::string(kLatest) : name;
}

void use_listed_name(const Call& call, JsonValue& body) {
  auto& members = *object_in(body);
  if (JsonValue old = take_member(members, "name"); old.as<std::string>() && !text_in(body, "model")) {
    take_member(members, "model");
    members.emplace_back("model", std::move(old));
  }
  const std::string* name = text_in(body, "model");
  if (!name) return;
  const auto entries = named_models(*call.shared);
  const ModelEntry* entry = find_entry(entries, *name);
  if (!entry || entry->name == *name) return;
  take_member(members, "model");
  members.emplace_back("model", JsonValue(entry->name));
}

void ollama_tags(const Call& call) {
  JsonWriter w;
  w.begin_object().key("models").begin_array();
  for (const ModelEntry& entry : named_models(*call.shared)) {
    w.begin_object();
    write_entry(w, entry);
    w.end_object();
  }
  call.respond(200, w.end_array().end_object().take());
}

void ollama_ps(const Call& call) {
  JsonWriter w;
  w.begin_object().key("models").begin_array();
  for (const ModelEntry& entry : call.shared->models.list()) {
    if (entry.state != ModelState::ready) continue;
    w.begin_object();
    write_entry(w, entry);
    const bool is_on_gpu = !entry.device.empty() && entry.device != "cpu";
    w.key("size_vram").value(is_on_gpu ? entry.file_bytes : uint64_t{0});
    if (entry.facts) w.key("context_length").value(served_context(entry, call.shared->options.n_context));
    w.key("expires_at").value("9999-12-31T23:59:59Z").end_object();
  }
  call.respond(200, w.end_array().end_object().take());
}

void ollama_version(const Call& call) {
  JsonWriter w;
  w.begin_object().key("version").value(kApiVersion).key("server").value(call.shared->options.fingerprint);
  call.respond(200, w.end_object().take());
}

void ollama_show(const Call& call) {
  const auto body = call.read_body();
  if (!body) return;
  use_listed_name(call, *body);
  const auto entries = named_models(*call.shared);
  const ModelEntry* entry = find_entry(entries, text_or(*body, "model", ""));
  if (!entry) return call.refuse(ApiError::model_not_found());
  if (entry->state != ModelState::ready) return show(call, *entry, nullptr);  // to be shown, no model is loaded
  call.with_model(*body, [call, entry = *entry](const ModelRef& model) { show(call, entry, model.get()); });
}

// Files are put into the folder of models by their owner, and by nobody else.
void ollama_not_done(const Call& call) {
  call.refuse({.status = 501,
               .message = "This server neither downloads nor changes models: put GGUF files into its folder.",
               .code = "not_implemented"});
}

}  // namespace rocmforge::server
