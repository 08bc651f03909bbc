#pragma once
// Combines several callables into one, for std::visit.

namespace rocmforge::jinja {

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

}  // namespace rocmforge::jinja
