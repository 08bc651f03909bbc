#include "chat/jinja/runtime.h"

#include <algorithm>

namespace rocmforge::jinja {

constexpr uint64_t kStepsPerTimeCheck = 4096;

Runtime::Runtime(const RenderOptions& options)
    : options_(options), deadline_(options.clock() + options.limits.max_time) {
  next_check_ = std::min(kStepsPerTimeCheck, options.limits.max_steps + 1);
}

Runtime::~Runtime() {
  for (Value& space : namespaces_) {
    // Moved out first: freeing a value may free the namespace it was in.
    const auto entries = space.as<DictObject>()->dict.take();
  }
}

Result<void> Runtime::check() {
  if (n_steps_ > limits().max_steps) {
    return Error{ErrorCode::template_limit, fmt::format("more than {} steps", limits().max_steps)};
  }
  if (options_.clock() > deadline_) {
    return Error{ErrorCode::template_limit, fmt::format("more than {:g} s", seconds(limits().max_time))};
  }
  TRY(options_.control.check());
  next_check_ = std::min(n_steps_ + kStepsPerTimeCheck, limits().max_steps + 1);
  return {};
}

Result<void> Runtime::check_text(size_t n_bytes) const {
  if (n_bytes <= limits().max_output_bytes) return {};
  return Error{ErrorCode::template_limit, fmt::format("a text of more than {} bytes", limits().max_output_bytes)};
}

Value Runtime::make_namespace(Dict dict) {
  namespaces_.push_back(make<DictObject>(Kind::name_space, std::move(dict)));
  return namespaces_.back();
}

Result<void> Builder::repeat(std::string_view text, uint64_t n) {
  if (text.empty()) return {};
  if (n > rt_.limits().max_output_bytes) TRY(rt_.check_text(SIZE_MAX));
  TRY(rt_.check_text(out_.size() + text.size() * n));
  TRY(rt_.charge_text(text.size() * n));
  for (uint64_t i = 0; i < n; i++) out_ += text;
  return {};
}

Result<void> bind_args(const Value** out, const Args& args, std::string_view function,
                       const std::string_view* parameters, size_t n, size_t n_required, size_t n_unnamed) {
  if (args.positional.size() > n) {
    return fault("{}() takes at most {} argument{} ({} given)", function, n, n == 1 ? "" : "s", args.positional.size());
  }
  for (size_t i = 0; i < args.positional.size(); i++) out[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const size_t i = static_cast<size_t>(std::find(parameters + n_unnamed, parameters + n, name) - parameters);
    if (i == n) return fault("{}() got an unexpected keyword argument '{}'", function, name);
    if (out[i] != nullptr) return fault("{}() got multiple values for argument '{}'", function, name);
    out[i] = &value;
  }
  for (size_t i = 0; i < n_required; i++) {
    if (out[i] == nullptr) return fault("{}() needs its argument '{}'", function, parameters[i]);
  }
  return {};
}

Result<void> expect_no_args(const Args& args, std::string_view function) {
  if (args.positional.empty() && args.named.empty()) return {};
  return fault("{} takes no arguments ({} given)", function, args.positional.size() + args.named.size());
}

Result<int64_t> to_index(const Value& value) {
  if (value.is_integral()) return value.as_integral();
  return fault("'{}' object cannot be interpreted as an integer", type_name(value));
}

Result<std::string_view> to_text_argument(const Value& value, std::string_view function) {
  if (value.is(Kind::string)) return std::string_view(value.text());
  return fault("{}() argument must be str, not {}", function, type_name(value));
}

}  // namespace rocmforge::jinja
