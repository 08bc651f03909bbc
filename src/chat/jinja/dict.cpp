#include "chat/jinja/dict.h"

#include <bit>
#include <cmath>

#include "base/seeded_hash.h"
#include "chat/jinja/objects.h"

namespace rocmforge::jinja {
namespace {

// Equal keys of different kinds have one hash; keys of templates and requests meet a hash that they cannot know.
uint64_t hash_key(const Value& key) {
  enum class Salt : uint64_t { whole, real, none, undefined, tuple, object };
  const auto hash = [](uint64_t value, Salt salt) { return seeded_hash(value, static_cast<uint64_t>(salt)); };
  switch (key.kind()) {
    case Kind::none:
      return hash(0, Salt::none);
    case Kind::boolean:
    case Kind::integer:
      return hash(static_cast<uint64_t>(key.as_integral()), Salt::whole);
    case Kind::real: {
      const double v = key.as_number();
      const bool whole = v == std::floor(v) && std::abs(v) < 9.2e18;
      return whole ? hash(static_cast<uint64_t>(static_cast<int64_t>(v)), Salt::whole)
                   : hash(std::bit_cast<uint64_t>(v), Salt::real);
    }
    case Kind::undefined:
      return hash(0, Salt::undefined);
    case Kind::string:
      return seeded_hash(key.text());
    case Kind::tuple: {
      uint64_t all = hash(key.items().size(), Salt::tuple);
      for (const Value& item : key.items()) all = seeded_hash(all, hash_key(item));
      return all;
    }
    case Kind::list:
    case Kind::dict:
    case Kind::name_space:
    case Kind::range:
    case Kind::dict_view:
    case Kind::iterator:
    case Kind::function:
    case Kind::macro:
    case Kind::loop:
    case Kind::cycler:
    case Kind::joiner:
      return hash(reinterpret_cast<uintptr_t>(key.object()), Salt::object);
  }
  RF_UNREACHABLE("a Kind outside its enum");
}

bool same_key(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_integral() == b.as_integral();
  if (a.is_number() && b.is_number()) return a.as_number() == b.as_number();
  if (a.kind() != b.kind()) return false;
  if (a.is(Kind::none) || a.is(Kind::undefined)) return true;
  if (a.is(Kind::string)) return a.text() == b.text();
  if (!a.is(Kind::tuple)) return a.object() == b.object();
  if (a.items().size() != b.items().size()) return false;
  for (size_t i = 0; i < a.items().size(); i++) {
    if (!same_key(a.items()[i], b.items()[i])) return false;
  }
  return true;
}

}  // namespace

const Value* Dict::find(const Value& key) const {
  const auto at = index_.find(
      entries_.size(), [&] { return hash_key(key); }, [&](size_t i) { return same_key(entries_[i].key, key); });
  return at ? &entries_[*at].value : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  const auto at = index_.find(
      entries_.size(), [&] { return seeded_hash(key); },
      [&](size_t i) { return entries_[i].key.is(Kind::string) && entries_[i].key.text() == key; });
  return at ? &entries_[*at].value : nullptr;
}

void Dict::set(Value key, Value value) {
  if (const Value* old = find(key)) {
    const_cast<Value&>(*old) = std::move(value);
    return;
  }
  entries_.push_back({std::move(key), std::move(value)});
  index_.add_last(entries_.size(), [&](size_t i) { return hash_key(entries_[i].key); });
}

}  // namespace rocmforge::jinja
