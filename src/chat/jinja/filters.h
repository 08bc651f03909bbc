#pragma once
// The filters (value|name) and tests (value is name) by their names.

#include <span>
#include <string_view>

#include "chat/jinja/ast.h"
#include "chat/jinja/methods.h"

namespace rocmforge::jinja {

// Null when there is none of that name.
Callable find_filter(std::string_view name);
Callable find_test(std::string_view name);

// The filters by subject, for find_filter.
std::span<const NamedCallable> text_filters();
std::span<const NamedCallable> value_filters();
std::span<const NamedCallable> sequence_filters();
std::span<const NamedCallable> selection_filters();

}  // namespace rocmforge::jinja
