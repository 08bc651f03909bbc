// Atomics of global, flat and shared memory. Blocks run on several threads; the waves of a block do not.

#include <algorithm>
#include <atomic>

#include "gpu/isa/access.h"
#include "gpu/isa/float_rules.h"

namespace rocmforge::gpu::isa {
namespace {

// What comes after the operands' first register: one value, or the new one and the one that is compared.
template <class T>
T value_at(const Wave& w, const Operand& from, uint32_t first, uint32_t lane) {
  T value;
  uint32_t words[sizeof(T) / 4];
  for (uint32_t k = 0; k < std::size(words); k++) words[k] = w.at(from.index + first + k, lane);
  std::memcpy(&value, words, sizeof value);
  return value;
}
template <class T>
void put_value(Wave& w, const Operand& to, uint32_t lane, T value) {
  uint32_t words[sizeof(T) / 4];
  std::memcpy(words, &value, sizeof value);
  for (uint32_t k = 0; k < std::size(words); k++) w.at(to.index + k, lane) = words[k];
}

// [dst,] address, value, base
template <class T, auto kF, bool kCompares, bool kFlat>
void on_device(Wave& w, const Instruction& i) {
  const uint32_t first = i.n_outputs, number = w.visibility.issue_store();
  const Scope scope = w.generation() >= 12 ? i.scope : Scope::device;
  const Operand& data = i.o[first + 1];
  for (uint64_t left = w.exec(); left != 0; left &= left - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(left));
    const uint64_t at = global_address(w, i, i.o[first], operand_or_null(i, first + 2), l);
    std::byte* where = w.memory_at(i, at, sizeof(T), true);
    if (where == nullptr) return;
    if (at % sizeof(T) != 0) return w.fail(i, "an atomic at an address that is not aligned");
    const auto turn = w.visibility.atomic_turn();
    for (uint64_t word = at; w.visibility.is_followed() && word < at + sizeof(T); word += 4) {
      if (!is_good(w, i, w.visibility.atomic(w.last_range, word, scope))) return;
    }
    const T value = value_at<T>(w, data, 0, l);
    const T compared = kCompares ? value_at<T>(w, data, sizeof(T) / 4, l) : T{};
    std::atomic_ref<T> place(*reinterpret_cast<T*>(where));
    T old = place.load();
    while (!place.compare_exchange_weak(old, kF(old, value, compared))) continue;
    if (w.visibility.is_followed()) w.visibility.atomic_is_done(at);
    if (i.returns) put_value(w, i.o[0], l, old);
  }
  w.atomic_begins(i.returns ? i.o.data() : nullptr, number);
  // It may have been an address of shared memory, as far as the counters know.
  if (kFlat && i.returns) w.load_begins(kLds, i.o[0], sizeof(T) / 4, false);
}

// [dst,] address, value[, second value]. gfx11 and later give the new value before the compared one.
enum class Compares : uint8_t { no, value_first, compared_first };
template <class T, auto kF, Compares kCompares>
void on_lds(Wave& w, const Instruction& i) {
  const uint32_t first = i.n_outputs;
  for (uint64_t left = w.exec(); left != 0; left &= left - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(left));
    const uint64_t at = static_cast<uint64_t>(w.at(i.o[first].index, l)) + static_cast<uint32_t>(i.offset);
    if (at % sizeof(T) != 0) return w.fail(i, "an atomic at an address that is not aligned");
    std::byte* where = lds_at(w, i, at, sizeof(T), Access::atomic);
    if (where == nullptr) return;
    T value = value_at<T>(w, i.o[first + 1], 0, l), compared{};
    if constexpr (kCompares != Compares::no) compared = value_at<T>(w, i.o[first + 2], 0, l);
    if constexpr (kCompares == Compares::compared_first) std::swap(value, compared);
    T old;
    std::memcpy(&old, where, sizeof old);
    const T now = kF(old, value, compared);
    std::memcpy(where, &now, sizeof now);
    if (first != 0) put_value(w, i.o[0], l, old);
  }
  if (first != 0)
    w.load_begins(kLds, i.o[0], sizeof(T) / 4, true);
  else
    w.store_begins(kLds, true);
}

// The names of gfx11 and later, and those of before; "" where there is none.
struct Names {
  std::string now, before;
};
template <class T, auto kF>
void add(Table& t, const Names& global, const Names& lds) {
  for (const std::string& name : {global.now, global.before}) {
    if (name.empty()) continue;
    t["global_atomic_" + name] = {on_device<T, kF, false, false>};
    t["flat_atomic_" + name] = {on_device<T, kF, false, true>};
  }
  for (const std::string& name : {lds.now, lds.before}) {
    if (name.empty()) continue;
    t["ds_" + name] = {on_lds<T, kF, Compares::no>};
    const size_t type = name.rfind('_');
    t["ds_" + name.substr(0, type) + "_rtn" + name.substr(type)] = {on_lds<T, kF, Compares::no>};
  }
}

template <class T>
void add_integers_of(Table& t, const std::string& bits, const std::string& before) {
  using S = std::make_signed_t<T>;
  constexpr auto sum = [](T old, T v, T) { return static_cast<T>(old + v); };
  constexpr auto difference = [](T old, T v, T) { return static_cast<T>(old - v); };
  constexpr auto least = [](T old, T v, T) { return std::min(old, v); };
  constexpr auto most = [](T old, T v, T) { return std::max(old, v); };
  constexpr auto signed_least = [](T old, T v, T) { return static_cast<S>(v) < static_cast<S>(old) ? v : old; };
  constexpr auto signed_most = [](T old, T v, T) { return static_cast<S>(v) > static_cast<S>(old) ? v : old; };
  constexpr auto both = [](T old, T v, T) { return static_cast<T>(old & v); };
  constexpr auto either = [](T old, T v, T) { return static_cast<T>(old | v); };
  constexpr auto one = [](T old, T v, T) { return static_cast<T>(old ^ v); };
  constexpr auto up = [](T old, T v, T) { return old >= v ? T{0} : static_cast<T>(old + 1); };
  constexpr auto down = [](T old, T v, T) { return old == 0 || old > v ? v : static_cast<T>(old - 1); };
  constexpr auto exchange = [](T, T v, T) { return v; };
  constexpr auto replace = [](T old, T v, T compared) { return old == compared ? v : old; };
  const auto names = [&](const std::string& now, const std::string& old) { return Names{now + bits, old + before}; };
  const auto shared = [&](const std::string& now) { return Names{now + bits, ""}; };
  add<T, sum>(t, names("add_u", "add"), shared("add_u"));
  add<T, difference>(t, names("sub_u", "sub"), shared("sub_u"));
  add<T, least>(t, names("min_u", "umin"), shared("min_u"));
  add<T, most>(t, names("max_u", "umax"), shared("max_u"));
  add<T, signed_least>(t, names("min_i", "smin"), shared("min_i"));
  add<T, signed_most>(t, names("max_i", "smax"), shared("max_i"));
  add<T, both>(t, names("and_b", "and"), shared("and_b"));
  add<T, either>(t, names("or_b", "or"), shared("or_b"));
  add<T, one>(t, names("xor_b", "xor"), shared("xor_b"));
  add<T, up>(t, names("inc_u", "inc"), shared("inc_u"));
  add<T, down>(t, names("dec_u", "dec"), shared("dec_u"));
  add<T, exchange>(t, names("swap_b", "swap"), {});
  t["ds_storexchg_rtn_b" + bits] = t["ds_wrxchg_rtn_b" + bits] = {on_lds<T, exchange, Compares::no>};
  for (const std::string& name : {"cmpswap_b" + bits, "cmpswap" + before}) {
    t["global_atomic_" + name] = {on_device<T, replace, true, false>};
    t["flat_atomic_" + name] = {on_device<T, replace, true, true>};
  }
  for (const std::string returns : {"", "_rtn"}) {
    t["ds_cmpstore" + returns + "_b" + bits] = {on_lds<T, replace, Compares::value_first>};
    t["ds_cmpst" + returns + "_b" + bits] = {on_lds<T, replace, Compares::compared_first>};
  }
}

}  // namespace

void add_atomics(Table& t) {
  constexpr auto sum = [](auto old, auto v, auto) { return old + v; };
  constexpr auto least = [](float old, float v, float) { return smallest(old, v); };
  constexpr auto most = [](float old, float v, float) { return largest(old, v); };
  add_integers_of<uint32_t>(t, "32", "");
  add_integers_of<uint64_t>(t, "64", "_x2");
  add<float, sum>(t, {"add_f32", ""}, {"add_f32", ""});
  add<double, sum>(t, {"add_f64", ""}, {"add_f64", ""});
  add<float, least>(t, {"min_num_f32", "min_f32"}, {"min_num_f32", "min_f32"});
  add<float, most>(t, {"max_num_f32", "max_f32"}, {"max_num_f32", "max_f32"});
}

}  // namespace rocmforge::gpu::isa
