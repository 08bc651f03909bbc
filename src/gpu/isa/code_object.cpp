#include "gpu/isa/code_object.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "gpu/isa/disassemble.h"
#include "gpu/isa/hazards.h"

namespace rocmforge::gpu::isa {
namespace {

constexpr std::string_view kBundleMagic = "__CLANG_OFFLOAD_BUNDLE__";
constexpr uint16_t kMachineAmd = 224;

Error bad(std::string text) {
  return Error{ErrorCode::invalid_argument, "code object: " + std::move(text)};
}

// Reads of the file that may lie outside of it.
class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  Result<T> at(uint64_t offset) const {
    T value;
    const auto raw = TRY(part(offset, sizeof value));
    std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  Result<std::span<const std::byte>> part(uint64_t offset, uint64_t n) const {
    if (offset > bytes_.size() || n > bytes_.size() - offset) return bad("it is cut off");
    return bytes_.subspan(offset, n);
  }
  Result<std::string> text(uint64_t offset) const {
    std::string out;
    for (;; offset++) {
      const char c = TRY(at<char>(offset));
      if (c == 0) return out;
      out += c;
    }
  }

 private:
  std::span<const std::byte> bytes_;
};

// The low byte of e_flags.
struct KnownTarget {
  uint32_t flag;
  Target target;
};
const KnownTarget kTargets[] = {{0x36, {"gfx1030", 10}},
                                {0x3F, {"gfx90a", 9, true}},
                                {0x41, {"gfx1100", 11}},
                                {0x46, {"gfx1101", 11}},
                                {0x48, {"gfx1200", 12}},
                                {0x4A, {"gfx1151", 11}},
                                {0x4C, {.name = "gfx942", .generation = 9, .has_several_l2 = true}},
                                {0x4E, {"gfx1201", 12}}};

struct BundleEntry {
  uint64_t offset, n_bytes;
  std::string name;
};

Result<std::vector<BundleEntry>> entries_of(const Bytes& bundle) {
  std::vector<BundleEntry> entries;
  const auto n = TRY(bundle.at<uint64_t>(kBundleMagic.size()));
  if (n > 64) return bad("a bundle of too many parts");
  uint64_t at = kBundleMagic.size() + sizeof n;
  for (uint64_t k = 0; k < n; k++) {
    BundleEntry entry{TRY(bundle.at<uint64_t>(at)), TRY(bundle.at<uint64_t>(at + 8)), {}};
    const auto n_name = TRY(bundle.at<uint64_t>(at + 16));
    const auto name = TRY(bundle.part(at + 24, n_name));
    entry.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
    at += 24 + n_name;
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace

const Target* find_target(const std::string& name) {
  const auto found = std::ranges::find(kTargets, name, [](const KnownTarget& known) { return known.target.name; });
  return found == std::end(kTargets) ? nullptr : &found->target;
}

Result<size_t> bundle_bytes(const std::byte* bundle) {
  if (std::memcmp(bundle, kBundleMagic.data(), kBundleMagic.size()) != 0) return bad("not a bundle");
  size_t end = 0;
  // Its header is far smaller than that, and lies before the parts.
  for (const BundleEntry& entry : TRY(entries_of(Bytes({bundle, 4096})))) {
    end = std::max<size_t>(end, entry.offset + entry.n_bytes);
  }
  return end;
}

Result<std::span<const std::byte>> part_of_bundle(std::span<const std::byte> bytes, const std::string& target) {
  if (bytes.size() < kBundleMagic.size() || std::memcmp(bytes.data(), kBundleMagic.data(), kBundleMagic.size()) != 0) {
    return bytes;
  }
  const Bytes bundle(bytes);
  for (const BundleEntry& entry : TRY(entries_of(bundle))) {
    if (entry.name.ends_with("-" + target)) return TRY(bundle.part(entry.offset, entry.n_bytes));
  }
  return bad("the bundle has no part for " + target);
}

uint32_t Kernel::n_vector_registers() const {
  return ((descriptor.rsrc1 & 63) + 1) * 8;
}

Result<std::unique_ptr<CodeObject>> CodeObject::load(std::span<const std::byte> bytes, const std::string& target) {
  const auto part = TRY(part_of_bundle(bytes, target));
  auto object = std::make_unique<CodeObject>();
  object->elf_.assign(part.begin(), part.end());
  TRY(object->load_elf());
  if (object->target_.name != target) return bad("for " + object->target_.name + ", not for " + target);
  return object;
}

Result<void> CodeObject::load_elf() {
  const Bytes file(elf_);
  const auto header = TRY(file.at<Elf64_Ehdr>(0));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != kMachineAmd) return bad("not AMD's");
  for (const KnownTarget& known : kTargets) {
    if ((header.e_flags & 0xFF) == known.flag) target_ = known.target;
  }
  if (target_.name.empty()) return bad("a target that is not known");
  constexpr uint64_t kMaxImage = 256 << 20;
  for (uint32_t k = 0; k < header.e_phnum; k++) {
    const auto segment = TRY(file.at<Elf64_Phdr>(header.e_phoff + k * sizeof(Elf64_Phdr)));
    if (segment.p_type != PT_LOAD) continue;
    if (segment.p_vaddr > kMaxImage || segment.p_memsz > kMaxImage || segment.p_filesz > segment.p_memsz) {
      return bad("a segment of a size that cannot be");
    }
    image_.resize(std::max<size_t>(image_.size(), segment.p_vaddr + segment.p_memsz));
    std::ranges::copy(TRY(file.part(segment.p_offset, segment.p_filesz)),
                      image_.begin() + static_cast<ptrdiff_t>(segment.p_vaddr));
  }
  for (uint32_t k = 0; k < header.e_shnum; k++) {
    const auto section = TRY(file.at<Elf64_Shdr>(header.e_shoff + k * sizeof(Elf64_Shdr)));
    if (section.sh_type != SHT_DYNSYM) continue;
    const auto names = TRY(file.at<Elf64_Shdr>(header.e_shoff + section.sh_link * sizeof(Elf64_Shdr)));
    for (uint64_t at = 0; at < section.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = TRY(file.at<Elf64_Sym>(section.sh_offset + at));
      symbols_[TRY(file.text(names.sh_offset + symbol.st_name))] = symbol.st_value;
    }
  }
  return {};
}

std::vector<std::string> CodeObject::kernel_names() const {
  std::vector<std::string> names;
  for (const auto& [name, address] : symbols_) {
    if (name.ends_with(".kd")) names.push_back(name.substr(0, name.size() - 3));
  }
  return names;
}

Result<Descriptor> CodeObject::descriptor(const std::string& name) const {
  const auto found = symbols_.find(name + ".kd");
  if (found == symbols_.end()) return Error{ErrorCode::invalid_argument, "code object: no kernel " + name};
  const Bytes image(image_);
  const uint64_t at = found->second;
  return Descriptor{TRY(image.at<uint32_t>(at)),      TRY(image.at<uint32_t>(at + 4)),
                    TRY(image.at<uint32_t>(at + 8)),  TRY(image.at<int64_t>(at + 16)),
                    TRY(image.at<uint32_t>(at + 48)), TRY(image.at<uint32_t>(at + 52)),
                    TRY(image.at<uint32_t>(at + 44)), TRY(image.at<uint16_t>(at + 56))};
}

namespace {

std::vector<Instruction> parse_lines(const std::vector<Line>& lines) {
  std::vector<Instruction> instructions;
  std::unordered_map<uint64_t, uint32_t> at;
  for (const Line& line : lines) {
    at[line.address] = static_cast<uint32_t>(instructions.size());
    instructions.push_back(parse_instruction(line.text));
    instructions.back().address = line.address;
  }
  for (Instruction& i : instructions) {
    if (i.kind != Class::branch) continue;
    // Words from the next instruction, printed as an unsigned 16-bit number.
    const int64_t bytes = 4 * static_cast<int64_t>(static_cast<int16_t>(i.o[0].bits));
    const auto found = at.find(i.address + 4 + static_cast<uint64_t>(bytes));
    if (found == at.end())
      i.run = nullptr;
    else
      i.target = found->second;
  }
  return instructions;
}

}  // namespace

Result<std::vector<const Kernel*>> CodeObject::decode(const std::vector<std::string>& names) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    if (!kernels_.contains(name)) missing.push_back(name);
  }
  if (!missing.empty()) {
    const auto text = TRY(disassemble(elf_, missing));
    for (const std::string& name : missing) {
      auto kernel = std::make_unique<Kernel>();
      kernel->name = name;
      kernel->target = target_;
      kernel->image = image_.data();
      kernel->image_bytes = image_.size();
      kernel->descriptor = TRY(descriptor(name));
      if (const auto found = text.find(name); found != text.end()) kernel->instructions = parse_lines(found->second);
      const uint64_t entry = symbols_.at(name + ".kd") + static_cast<uint64_t>(kernel->descriptor.entry);
      if (kernel->instructions.empty() || kernel->instructions[0].address != entry) {
        return bad("the disassembler gave no code of " + name);
      }
      kernel->hazard = find_hazard(*kernel);
      kernels_[name] = std::move(kernel);
    }
  }
  std::vector<const Kernel*> out;
  for (const std::string& name : names) out.push_back(kernels_[name].get());
  return out;
}

Result<const Kernel*> CodeObject::kernel(const std::string& name) {
  TRY(descriptor(name));  // there is one
  return TRY(decode({name}))[0];
}

Result<std::vector<const Kernel*>> CodeObject::all_kernels() {
  return decode(kernel_names());
}

}  // namespace rocmforge::gpu::isa
