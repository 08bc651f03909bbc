#pragma once
// Ids are types: a TokenId cannot be passed where a LayerId is meant.
//
//   using TokenId = Id<struct TokenIdTag, int32_t>;

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace rocmforge {

template <class Tag, class Rep = uint32_t>
struct Id {
  Rep value{};

  constexpr Id() = default;
  constexpr explicit Id(Rep v) : value(v) {}
  friend constexpr auto operator<=>(Id, Id) = default;
};

using TokenId = Id<struct TokenIdTag, int32_t>;

}  // namespace rocmforge

template <class Tag, class Rep>
struct std::hash<rocmforge::Id<Tag, Rep>> {
  size_t operator()(rocmforge::Id<Tag, Rep> id) const noexcept { return std::hash<Rep>{}(id.value); }
};
