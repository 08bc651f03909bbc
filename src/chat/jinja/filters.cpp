#include "chat/jinja/filters.h"

namespace rocmforge::jinja {

Callable find_filter(std::string_view name) {
  for (const auto& group : {text_filters(), value_filters(), sequence_filters(), selection_filters()}) {
    for (const NamedCallable& filter : group) {
      if (filter.name == name) return filter.body;
    }
  }
  return nullptr;
}

}  // namespace rocmforge::jinja
