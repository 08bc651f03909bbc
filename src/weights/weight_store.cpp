#include "weights/weight_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/thread_pool.h"
#include "gguf/format.h"
#include "weights/loader.h"
#include "weights/weight_table.h"

namespace rocmforge {
namespace {

constexpr size_t kMaxDefaultLoaders = 8;

}  // namespace

struct WeightStore::State {
  State(std::shared_ptr<const gguf::GgufFile> opened, Placement& where, WeightTable weights, size_t n_loaders,
        Clock clock)
      : file(std::move(opened)),
        placement(where),
        table(std::move(weights)),
        loader(table, *file, placement, n_loaders, std::move(clock)) {}

  std::shared_ptr<const gguf::GgufFile> file;
  Placement& placement;
  WeightTable table;
  Loader loader;
};

size_t WeightStore::Options::n_loaders_or_default() const {
  return n_loaders > 0 ? n_loaders : std::min(available_cores(), kMaxDefaultLoaders);
}

WeightStore::WeightStore(std::unique_ptr<State> state) : state_(std::move(state)) {}

WeightStore::~WeightStore() {
  clear();  // leases on other threads reach the store through its members
}

Result<std::unique_ptr<WeightStore>> WeightStore::create(std::shared_ptr<const gguf::GgufFile> file,
                                                         Placement& placement, std::vector<WeightRequest> requests,
                                                         const Options& options) {
  const size_t n_loaders = options.n_loaders_or_default();
  WeightTable table = TRY(WeightTable::build(*file, placement, requests, n_loaders, options.budget_bytes));
  auto state = std::make_unique<State>(std::move(file), placement, std::move(table), n_loaders, options.clock);
  return std::unique_ptr<WeightStore>(new WeightStore(std::move(state)));
}

WeightStore::Lease::Lease(Lease&& other) noexcept : store_(std::exchange(other.store_, nullptr)), id_(other.id_) {}

WeightStore::Lease& WeightStore::Lease::operator=(Lease&& other) noexcept {
  Lease taken(std::move(other));
  std::swap(store_, taken.store_);
  std::swap(id_, taken.id_);
  return *this;
}

WeightStore::Lease::~Lease() {
  if (store_ != nullptr) store_->state_->loader.release(id_);
}

const LazyTensor& WeightStore::Lease::tensor() const {
  CHECK(store_ != nullptr);
  return store_->tensor(id_);
}

const std::byte* WeightStore::Lease::data() const {
  CHECK(store_ != nullptr);
  return store_->state_->placement.base() + store_->address(id_);
}

std::span<const LazyTensor> WeightStore::tensors() const {
  return state_->table.tensors();
}

const LazyTensor& WeightStore::tensor(WeightId id) const {
  return state_->table.tensor(id);
}

Result<WeightId> WeightStore::find(std::string_view name) const {
  if (const auto id = state_->table.find(name)) return *id;
  return Error{ErrorCode::gguf_tensor_missing,
               fmt::format("weights: tensor {}: not held by this store", gguf::in_quotes(name))};
}

LoadState WeightStore::state(WeightId id) const {
  return std::as_const(state_->loader).word(id).state();
}

uint64_t WeightStore::arena_bytes() const {
  return state_->table.arena_bytes();
}

uint64_t WeightStore::address(WeightId id) const {
  const auto address = find_address(id);
  CHECK(address.has_value());
  return *address;
}

std::optional<uint64_t> WeightStore::find_address(WeightId id) const {
  return state_->loader.address(id);
}

bool WeightStore::is_streamed(uint32_t stage) const {
  return stage < n_stages() && state_->table.is_streamed(stage);
}

uint64_t WeightStore::streamed_bytes() const {
  uint64_t n_bytes = 0;
  for (const LazyTensor& weight : tensors()) {
    if (weight.group && !weight.expert) n_bytes += weight.file_bytes;
  }
  return n_bytes;
}

bool WeightStore::experts_move() const {
  return state_->table.experts_move();
}

bool WeightStore::is_settled() const {
  return state_->table.groups().empty() && state_->loader.all_resident();
}

Result<WeightStore::Lease> WeightStore::get(WeightId id) {
  if (!state_->loader.try_lease(id)) TRY(state_->loader.lease({&id, 1}));
  return Lease(this, id);
}

std::optional<WeightStore::Lease> WeightStore::try_get(WeightId id) {
  if (!state_->loader.try_lease(id)) return std::nullopt;
  return Lease(this, id);
}

Result<std::vector<WeightStore::Lease>> WeightStore::get_all(std::span<const WeightId> ids) {
  std::vector<Lease> leases;
  leases.reserve(ids.size());  // while there is nothing to be given back
  TRY(state_->loader.lease(ids));
  for (const WeightId id : ids) leases.push_back(Lease(this, id));
  return leases;
}

void WeightStore::prefetch(std::span<const WeightId> ids) {
  state_->loader.prefetch(ids);
}

void WeightStore::give_back(std::span<const WeightId> ids) {
  state_->loader.give_back(ids);
}

std::optional<WeightStore::Lease> WeightStore::try_get_experts(uint32_t stage) {
  CHECK(stage < n_stages());
  return try_get(state_->loader.all_experts(stage));
}

std::optional<WeightStore::Lease> WeightStore::try_get_everything() {
  return try_get(state_->loader.all_weights());
}

Result<void> WeightStore::preload_layers(uint32_t first_layer, uint32_t n_layers) {
  const WeightTable& table = state_->table;
  if (first_layer > table.n_layers() || n_layers > table.n_layers() - first_layer) {
    return Error{ErrorCode::invalid_argument, fmt::format("weights: layers {} to {}: there are {}", first_layer,
                                                          uint64_t{first_layer} + n_layers, table.n_layers())};
  }
  std::vector<uint32_t> layers(n_layers);
  std::iota(layers.begin(), layers.end(), first_layer);
  return preload_layers(layers);
}

Result<void> WeightStore::preload_layers(std::span<const uint32_t> layers) {
  const WeightTable& table = state_->table;
  for (const uint32_t layer : layers) {
    if (layer < table.n_layers()) continue;
    return Error{ErrorCode::invalid_argument, fmt::format("weights: layer {}: there are {}", layer, table.n_layers())};
  }
  // Side by side where every weight has its own address; one layer after the other where layers share cache slots.
  const size_t at_once = table.groups().empty() ? std::max<size_t>(layers.size(), 1) : 1;
  for (size_t i = 0; i < layers.size(); i += at_once) {
    std::vector<WeightId> ids;
    for (const uint32_t layer : layers.subspan(i, std::min(at_once, layers.size() - i))) {
      const auto stage = table.stage(1 + layer);
      ids.insert(ids.end(), stage.begin(), stage.end());
    }
    TRY(get_all(ids));
  }
  return {};
}

Result<void> WeightStore::preload_all() {
  const WeightTable& table = state_->table;
  std::vector<size_t> n_left;
  for (const WeightTable::Pool& pool : table.pools()) n_left.push_back(pool.n_slots);
  std::vector<bool> has_slot(table.groups().size());
  for (size_t i = 0; i < has_slot.size(); i++) {
    size_t& left = n_left[table.groups()[i].pool];
    has_slot[i] = left > 0;
    left -= has_slot[i];
  }
  std::vector<WeightId> ids;
  for (uint32_t i = 0; i < n_stages(); i++) {
    for (const WeightId id : stage_weights(i)) {
      const auto group = tensor(id).group;
      if (!group || has_slot[group->value]) ids.push_back(id);
    }
  }
  TRY(get_all(ids));
  return {};
}

bool WeightStore::is_layer_loaded(uint32_t layer) const {
  CHECK(layer < state_->table.n_layers());
  return state_->loader.is_stage_resident(1 + layer);
}

std::span<const WeightId> WeightStore::stage_weights(uint32_t stage) const {
  CHECK(stage < n_stages());
  return state_->table.stage(stage);
}

uint32_t WeightStore::n_stages() const {
  return state_->table.n_stages();
}

LoadingStats WeightStore::loading_stats() const {
  return state_->loader.stats();
}

void WeightStore::on_progress(ProgressCallback callback) {
  state_->loader.on_progress(std::move(callback));
}

void WeightStore::evict(WeightId id) {
  state_->loader.evict(id);
}

void WeightStore::clear() {
  state_->loader.clear();
}

}  // namespace rocmforge
