// POST /v1/responses, POST /v1/responses/input_tokens, GET and DELETE /v1/responses/{id},
// GET /v1/responses/{id}/input_items, POST /v1/responses/{id}/cancel

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "server/api/body_parts.h"
#include "server/api/conversation.h"
#include "server/api/responses_request.h"
#include "server/api/responses_writer.h"
#include "server/api/routes.h"

namespace rocmforge::server {
namespace {

constexpr size_t kMaxListed = 100, kUsuallyListed = 20;

// Counts the bytes of a request as long as the answer needs some: the body's, and those of texts that it brought back.
struct HeldRequest {
  std::shared_ptr<JsonValue> body;  // counted by itself
  ByteHold recalled;
};

ResponsesHistory history_of(const Call& call, const std::shared_ptr<HeldRequest>& held) {
  ResponsesHistory out;
  out.conversation = [call](std::string_view id) -> std::optional<std::vector<ResponseStore::Ref>> {
    auto chain = call.shared->responses.chain(id, call.client.owner);
    if (chain && !std::ranges::all_of(*chain, [](const auto& response) { return response->is_finished; })) return {};
    return chain;
  };
  out.items = [call](const auto& ids) { return call.shared->responses.find_items(ids, call.client.owner); };
  out.hold = [call, held](const std::string& json) -> std::optional<ApiError> {
    // A small request asks for this work: less than a large one brings itself, and more than any context holds.
    const uint64_t most = call.shared->options.max_parsed_bytes / 4;
    const uint64_t n_bytes = held->recalled.bytes() + parsed_bytes(json);
    if (n_bytes > most) {
      return ApiError{.status = 400,
                      .message = fmt::format("The request brings back more than {} bytes of earlier items.", most),
                      .param = "input",
                      .code = "request_too_large"};
    }
    if (held->recalled.resize(n_bytes)) return {};
    return ApiError::unavailable("Too many large requests at once.", "requests_too_large", 1);
  };
  return out;
}

// The body in the form of a chat, checked. False: refused, or the client has left.
struct Prepared {
  ResponsesRequest request;
  Conversation conversation;
  std::optional<ApiError> error;
  std::shared_ptr<HeldRequest> held;
};
bool prepare(const Call& call, const std::shared_ptr<JsonValue>& body, const ServedModel& model, Prepared& out) {
  out.held = std::make_shared<HeldRequest>(HeldRequest{body, ByteHold(call.shared->parsed)});
  if (auto error = read_responses(std::move(*object_in(*body)), history_of(call, out.held), out.request)) {
    call.refuse(*error);
    return false;
  }
  Fields fields(out.request.chat);
  out.error = prepare_conversation(call, fields, model, {.shortens_answer = true}, out.conversation);
  if (call.is_abandoned()) return false;
  if (out.error) out.error = responses_error(*std::move(out.error));
  std::string ignored = out.conversation.ignored;
  for (const std::string& name : out.request.ignored) ignored += (ignored.empty() ? "" : ", ") + name;
  call.tell_ignored(std::move(ignored));
  return true;
}

// What keeps the answer when it is complete.
ResponsesWriter::Keep keeper(const Call& call, const std::string& id, ResponsesRequest& request) {
  if (!request.is_stored) return {};
  auto stored = std::make_shared<StoredResponse>();
  stored->id = id;
  stored->owner = call.client.owner;
  stored->previous = request.previous;
  stored->input = std::move(request.input);
  return [shared = call.shared, stored, is_begun = request.is_background](std::string json,
                                                                          std::vector<StoredItem> output) {
    // One that was begun in the background may have been deleted since.
    if (is_begun && !shared->responses.find(stored->id, stored->owner)) return;
    stored->json = std::move(json);
    stored->output = std::move(output);
    shared->responses.put(std::move(*stored));
  };
}

// Runs without its client: the answer goes to the store.
void begin_in_background(const Call& call, ModelRef model, const std::string& id, Conversation conversation,
                         ResponsesWriter writer, StoredResponse begun) {
  const std::string json = begun.json;
  if (!call.shared->responses.put(std::move(begun))) {
    return call.refuse(ApiError::bad_param("input", "The request is too large to be kept; set 'background' to false."));
  }
  Call alone = call;
  alone.exchange = std::make_shared<Exchange>(Request{});
  alone.exchange->hold_answer(ByteHold(call.shared->answers));
  conversation.generation.stream = true;  // of which nobody reads anything but the end, in the store
  start_conversation(alone, std::move(model), id, std::move(conversation), std::move(writer));
  const Exchange::Output first = alone.exchange->take();
  if (!first.is_stream && first.head) {  // refused
    call.shared->responses.erase(id, call.client.owner);
    return call.exchange->respond(*first.head, first.bytes);
  }
  alone.exchange->on_output([weak = std::weak_ptr(alone.exchange)] {
    if (const auto exchange = weak.lock()) exchange->take();
  });
  call.respond(200, json);
}

void answer(const Call& call, const std::shared_ptr<JsonValue>& body, ModelRef model) {
  Prepared prepared;
  if (!prepare(call, body, *model, prepared)) return;
  ResponsesRequest& request = prepared.request;
  Conversation& conversation = prepared.conversation;
  const bool is_too_long = prepared.error && prepared.error->code == "context_length_exceeded" && request.is_stream;
  if (prepared.error && !is_too_long) return call.refuse(*prepared.error);

  const std::string id = make_id("resp", '_');
  StoredResponse begun{.id = id, .owner = call.client.owner, .previous = request.previous, .is_finished = false};
  if (request.is_background) begun.input = request.input;
  ResponsesWriter::Options options{.id = id, .model = conversation.generation.model};
  options.echo = std::move(request.echo);
  options.custom_tools = std::move(request.custom_tools);
  options.is_background = request.is_background;
  options.is_stored = request.is_stored;
  options.want_logprobs = conversation.generation.request.sampling.want_logprobs;
  options.seals_reasoning = request.seals_reasoning;
  options.held = prepared.held;
  ResponsesWriter writer(std::move(options), *model->tokenizer, keeper(call, id, request));
  if (is_too_long) {  // clients of streams look for this error in the stream
    call.record->note([&](RequestRecord::Facts& facts) { facts.error = prepared.error->message; });
    call.start_stream(writer.stream_head());
    std::string events = writer.open(0);
    events += writer.failure(*prepared.error);
    call.exchange->allow_unsent(events.size());
    call.exchange->write(events);
    return call.exchange->finish();
  }
  request.chat = JsonValue();  // the conversation is in tokens now
  if (!request.is_background) {
    return start_conversation(call, std::move(model), id, std::move(conversation), std::move(writer));
  }
  begun.json = writer.pending("queued");
  begin_in_background(call, std::move(model), id, std::move(conversation), std::move(writer), std::move(begun));
}

void count(const Call& call, const std::shared_ptr<JsonValue>& body, const ServedModel& model) {
  Prepared prepared;
  if (!prepare(call, body, model, prepared)) return;
  if (prepared.error) return call.refuse(*prepared.error);
  JsonWriter w;
  w.begin_object().key("object").value("response.input_tokens");
  w.key("input_tokens").value(uint64_t{prepared.conversation.generation.request.prompt.size()});
  call.respond(200, w.end_object().take());
}

ApiError no_such_response(std::string_view id) {
  ApiError error = ApiError::not_found("There is no response of the id '" + std::string(id.substr(0, 80)) + "'.",
                                       "response_not_found");
  error.param = "response_id";
  return error;
}

// The value of a member of the query; empty: it is not there.
std::string_view query_of(const Request& request, std::string_view name) {
  std::string_view rest = request.target;
  const size_t begin = rest.find('?');
  rest = begin == std::string_view::npos ? "" : rest.substr(begin + 1);
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const size_t equals = one.find('=');
    if (one.substr(0, equals) == name) return equals == std::string_view::npos ? "" : one.substr(equals + 1);
  }
  return {};
}

void list_items(const Call& call, const StoredResponse& response) {
  std::vector<const StoredItem*> items;
  for (const StoredItem& item : response.input) items.push_back(&item);
  const Request& request = call.exchange->request();
  if (query_of(request, "order") != "asc") std::ranges::reverse(items);
  if (const std::string_view after = query_of(request, "after"); !after.empty()) {
    const auto found =
        std::ranges::find(items, after, [](const StoredItem* item) -> std::string_view { return item->id; });
    items.erase(items.begin(), found == items.end() ? items.begin() : found + 1);
  }
  size_t limit = kUsuallyListed;
  if (const std::string_view asked = query_of(request, "limit"); !asked.empty()) {
    const auto [end, failure] = std::from_chars(asked.data(), asked.data() + asked.size(), limit);
    if (failure != std::errc() || end != asked.data() + asked.size() || limit < 1 || limit > kMaxListed) {
      return call.refuse(ApiError::bad_param("limit", "'limit' must be an integer from 1 to 100."));
    }
  }
  const bool has_more = items.size() > limit;
  if (has_more) items.resize(limit);
  std::string out = R"({"object":"list","data":[)";
  for (size_t i = 0; i < items.size(); i++) out += (i == 0 ? "" : ",") + items[i]->json;
  JsonWriter w;
  w.begin_object().key("first_id");
  items.empty() ? w.null() : w.value(items.front()->id);
  w.key("last_id");
  items.empty() ? w.null() : w.value(items.back()->id);
  w.key("has_more").value(has_more);
  call.respond(200, out + "]," + w.end_object().take().substr(1));
}

void begin(const Call& call, void (*then)(const Call&, const std::shared_ptr<JsonValue>&, ModelRef)) {
  const auto body = call.read_body();
  if (!body) return;
  call.with_model(*body, [call, body, then](ModelRef model) { then(call, body, std::move(model)); });
}

}  // namespace

void create_response(const Call& call) {
  begin(call, answer);
}

void count_response_tokens(const Call& call) {
  begin(call,
        [](const Call& one, const std::shared_ptr<JsonValue>& body, ModelRef model) { count(one, body, *model); });
}

void show_response(const Call& call) {
  std::string_view id = call.argument;
  constexpr std::string_view kItems = "/input_items";
  const bool wants_items = id.ends_with(kItems);
  if (wants_items) id.remove_suffix(kItems.size());
  const auto found = call.shared->responses.find(id, call.client.owner);
  if (!found) return call.refuse(no_such_response(id));
  if (wants_items) return list_items(call, *found);
  if (query_of(call.exchange->request(), "stream") == "true") {
    return call.refuse(ApiError::bad_param("stream", "'stream' is not supported here; ask again until it is complete.",
                                           "unsupported_feature"));
  }
  call.respond(200, found->json);
}

void delete_response(const Call& call) {
  call.shared->requests.cancel(call.argument, call.client.owner);  // if it still runs
  if (!call.shared->responses.erase(call.argument, call.client.owner)) {
    return call.refuse(no_such_response(call.argument));
  }
  JsonWriter w;
  w.begin_object().key("id").value(call.argument).key("object").value("response").key("deleted").value(true);
  call.respond(200, w.end_object().take());
}

void cancel_response(const Call& call) {
  std::string_view id = call.argument;
  constexpr std::string_view kCancel = "/cancel";
  if (!id.ends_with(kCancel)) return call.refuse(ApiError::not_found("There is nothing at this path."));
  id.remove_suffix(kCancel.size());
  const auto found = call.shared->responses.find(id, call.client.owner);
  if (!found) return call.refuse(no_such_response(id));
  auto json = parse_json(found->json);
  const JsonValue* is_background = json.ok() ? json->find("background") : nullptr;
  if (!is_background || !is_background->as<bool>() || !*is_background->as<bool>()) {
    return call.refuse(ApiError::bad_param("response_id", "Only a response with 'background' can be cancelled."));
  }
  if (found->is_finished) return call.respond(200, found->json);
  call.shared->requests.cancel(id, call.client.owner);
  for (auto& [key, value] : *object_in(*json)) {
    if (key == "status") value = JsonValue("cancelled");
  }
  call.respond(200, json_of(*json));
}

}  // namespace rocmforge::server
