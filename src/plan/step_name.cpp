#include "plan/step_name.h"

namespace rocmforge {
namespace {

// The name of a type as the compiler writes it behind "S = rocmforge::".
template <class S>
constexpr std::string_view type_name() {
  constexpr std::string_view kSelf = __PRETTY_FUNCTION__;
  constexpr size_t kBegin = kSelf.rfind("rocmforge::", kSelf.find_first_of(";]", kSelf.find("S = "))) + 11;
  return kSelf.substr(kBegin, kSelf.find_first_of(";]", kBegin) - kBegin);
}
static_assert(type_name<Matmul>() == "Matmul");

}  // namespace

std::string_view step_name(const Step& step) {
  return std::visit([]<class S>(const S&) { return type_name<S>(); }, step);
}

}  // namespace rocmforge
