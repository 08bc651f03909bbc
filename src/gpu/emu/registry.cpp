#include "gpu/emu/registry.h"

namespace rocmforge::gpu::emu {
namespace {

const KernelEntry*& head() {
  static const KernelEntry* entry = nullptr;
  return entry;
}

}  // namespace

KernelEntry::KernelEntry(std::string_view file_, std::string_view name_, Variant variant_, uint32_t n_threads_,
                         size_t args_bytes_, KernelBody body_)
    : file(file_),
      name(name_),
      variant(variant_),
      n_threads(n_threads_),
      args_bytes(args_bytes_),
      body(body_),
      next(head()) {
  head() = this;
}

const KernelEntry* first_kernel() {
  return head();
}

const KernelEntry* find_kernel(std::string_view file, std::string_view name, Variant device) {
  for (const KernelEntry* e = head(); e != nullptr; e = e->next) {
    const bool fits = e->variant.fragment == FragmentKind::any || e->variant.fragment == device.fragment;
    if (fits && e->variant.wave == device.wave && (file.empty() || e->file == file) && e->name == name) return e;
  }
  return nullptr;
}

}  // namespace rocmforge::gpu::emu
