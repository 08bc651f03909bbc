#include "server/api/message_shape.h"

namespace rocmforge::server {

void add_events(std::vector<MessageItem>& items, std::span<const chat::MessageEvent> events) {
  using Kind = chat::MessageEvent::Kind;
  const auto add_text = [&](MessageItem::Kind kind, const std::string& text) {
    if (items.empty() || items.back().kind != kind) items.push_back({.kind = kind});
    items.back().text += text;
  };
  for (const chat::MessageEvent& event : events) {
    switch (event.kind) {
      case Kind::reasoning:
        add_text(MessageItem::Kind::reasoning, event.text);
        break;
      case Kind::content:
        add_text(MessageItem::Kind::content, event.text);
        break;
      case Kind::call:
        items.push_back({.kind = MessageItem::Kind::call, .name = event.text, .id = event.id});
        break;
      case Kind::arguments:
        items.back().text += event.text;  // nothing stands between a call's beginning and its end
        break;
      case Kind::call_end:
        items.back().is_complete = true;
        break;
    }
  }
}

}  // namespace rocmforge::server
