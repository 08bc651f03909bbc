// The functions every template can call.

#include <algorithm>
#include <array>
#include <climits>
#include <ctime>

#include "chat/jinja/compare.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/methods.h"
#include "chat/jinja/print.h"
#include "chat/jinja/runtime.h"

namespace rocmforge::jinja {
namespace {

constexpr uint64_t kMaxRange = 100'000;  // as in Jinja's sandbox

Result<Value> range(Runtime&, const Value&, const Args& args) {
  if (!args.named.empty()) return fault("range() takes no keyword arguments");
  const size_t n_args = args.positional.size();
  if (n_args == 0 || n_args > 3) return fault("range expected 1 to 3 arguments, got {}", n_args);
  const int64_t first = TRY(to_index(args.positional[0]));
  const int64_t start = n_args > 1 ? first : 0;
  const int64_t stop = n_args > 1 ? TRY(to_index(args.positional[1])) : first;
  const int64_t step = n_args > 2 ? TRY(to_index(args.positional[2])) : 1;
  if (step == 0) return fault("range() arg 3 must not be zero");
  uint64_t n = 0;
  if (step > 0 ? start < stop : start > stop) {
    const uint64_t distance = step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                       : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
    const uint64_t by = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
    n = (distance - 1) / by + 1;
  }
  if (n > kMaxRange) return Error{ErrorCode::template_limit, fmt::format("a range of more than {} numbers", kMaxRange)};
  return make<RangeObject>(start, stop, step, static_cast<int64_t>(n));
}

// dict(mapping or pairs, **named)
Result<Dict> build_dict(Runtime& rt, std::string_view function, const Args& args) {
  if (args.positional.size() > 1) {
    return fault("{} expected at most 1 argument, got {}", function, args.positional.size());
  }
  Dict dict;
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.is(Kind::undefined)) return undefined_fault(source);
    if (source.is(Kind::dict)) {
      TRY(rt.charge_copies(dict_of(source).size()));
      dict = dict_of(source);
    } else {
      Walk walk = TRY(Walk::over(source));
      while (const auto pair = TRY(walk.next())) {
        TRY(rt.charge(1));
        const std::vector<Value> two = TRY(to_vector(rt, *pair));
        if (two.size() != 2)
          return fault("dictionary update sequence element has length {}; 2 is required", two.size());
        TRY(check_hashable(rt, two[0]));
        dict.set(two[0], two[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) dict.set(name, value);
  return dict;
}

Result<Value> dict_function(Runtime& rt, const Value&, const Args& args) {
  return make_dict(TRY(build_dict(rt, "dict", args)));
}

Result<Value> namespace_function(Runtime& rt, const Value&, const Args& args) {
  return rt.make_namespace(TRY(build_dict(rt, "namespace", args)));
}

Result<Value> cycler(Runtime&, const Value&, const Args& args) {
  if (!args.named.empty()) return fault("cycler() takes no keyword arguments");
  if (args.positional.empty()) return fault("at least one item has to be provided");
  return make<CyclerObject>(args.positional);
}

Result<Value> joiner(Runtime&, const Value&, const Args& args) {
  const auto [separator] = TRY(bind<1>(args, "joiner", {"sep"}));
  return make<JoinerObject>(separator != nullptr ? *separator : Value::string(", "));
}

Result<Value> raise_exception(Runtime& rt, const Value&, const Args& args) {
  const auto [message] = TRY(bind<1>(args, "raise_exception", {"message"}, 1));
  return Error{ErrorCode::template_raised, TRY(to_str(rt, *message))};
}

Result<Value> strftime_now(Runtime& rt, const Value&, const Args& args) {
  const auto [pattern] = TRY(bind<1>(args, "strftime_now", {"format"}, 1));
  const std::string_view text = TRY(to_text_argument(*pattern, "strftime_now"));
  // Python's own directives: no zone, no microseconds.
  std::string format;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] == '\0') return fault("embedded null character");
    if (text[i] != '%' || i + 1 == text.size()) {
      format.push_back(text[i]);
      continue;
    }
    const char directive = text[++i];
    if (directive == 'f') {
      format += "000000";
    } else if (directive != 'z' && directive != 'Z') {
      format += {'%', directive};
    }
  }
  TRY(rt.charge_text(format.size()));
  const std::tm now = rt.options().local_time();
  std::string out(format.size() * 8 + 256, '\0');
  format.push_back('.');  // so that an empty result can be told from one that did not fit
  const size_t n = std::strftime(out.data(), out.size(), format.c_str(), &now);
  if (n == 0) return fault("strftime_now: the result is too long");
  out.resize(n - 1);
  return Value::string(std::move(out));
}

constexpr auto kGlobals = std::to_array<NamedCallable>({
    {"namespace", namespace_function},
    {"raise_exception", raise_exception},
    {"range", range},
    {"dict", dict_function},
    {"strftime_now", strftime_now},
    {"cycler", cycler},
    {"joiner", joiner},
});

}  // namespace

Callable find_global(std::string_view name) {
  for (const NamedCallable& global : kGlobals) {
    if (global.name == name) return global.body;
  }
  return nullptr;
}

}  // namespace rocmforge::jinja
