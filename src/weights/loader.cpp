#include "weights/loader.h"

#include <fmt/core.h>

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "base/thread.h"
#include "base/trace.h"
#include "gguf/format.h"
#include "weights/chunk_reader.h"

namespace rocmforge {
namespace {

Error no_memory() noexcept {
  return {ErrorCode::out_of_memory, "out of memory"};  // short enough to need none itself
}

template <class Work>
Result<void> without_exceptions(Work&& work) noexcept try {
  return work();
} catch (const std::exception& exception) {
  return error_of(exception);
}

TraceSpan span_of(std::string_view name, const LazyTensor& weight, uint64_t n_bytes) {
  return TraceSpan("weights", name, {{{"tensor", weight.name}, {"stage", uint64_t{weight.stage}}, {"bytes", n_bytes}}});
}

}  // namespace

// One load of one weight. Guarded by the loader's mutex.
struct Loader::Flight {
  uint64_t next_row = 0;  // the first that no loader has taken
  size_t n_working = 0;   // chunks taken and not yet done with
  size_t n_waiters = 0;   // calls that get a lease when it lands
  bool landed = false;    // published, the leases given
  bool over = false;      // landed or failed, and the waiters may go
  std::optional<Error> error;
  std::condition_variable ended;
};

// What a call has taken so far: leases, and places among the waiting calls. Undone unless the call gets everything.
// Under the mutex.
class Loader::Taken {
 public:
  // The first n_hits are leased.
  Taken(Loader& loader, std::span<const WeightId> ids, size_t n_hits) : loader_(loader), ids_(ids), n_(n_hits) {}
  ~Taken() {
    if (n_ == 0) return;
    for (size_t i = 0; i < n_; i++) {
      Flight* const flight = i < joined_.size() ? joined_[i].flight.get() : nullptr;
      if (flight == nullptr || flight->landed) {
        loader_.word(ids_[i]).release();
      } else {
        flight->n_waiters--;
      }
    }
    loader_.quiet_.notify_all();
    loader_.unstick();
  }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;

  // By position in ids; those that were leased at once have no flight.
  std::span<const Joined> join_rest() {
    joined_.resize(ids_.size());
    for (; n_ < ids_.size(); n_++) joined_[n_] = loader_.join(ids_[n_]);
    return joined_;
  }
  void keep() { n_ = 0; }

 private:
  Loader& loader_;
  const std::span<const WeightId> ids_;
  size_t n_;
  std::vector<Joined> joined_;
};

Loader::Loader(const WeightTable& table, const gguf::GgufFile& file, Placement& placement, size_t n_loaders,
               Clock clock)
    : table_(table),
      file_(file),
      placement_(placement),
      n_loaders_(n_loaders),
      clock_(std::move(clock)),
      cleared_{ErrorCode::cancelled, "not loaded: the store is being cleared"},
      words_(table.size() + table.n_stages() + 1),
      slots_(table),
      flights_(table.size()),
      is_full_(table.pools().size()),
      n_experts_absent_(table.n_stages()) {
  CHECK(n_loaders_ > 0);
  counts_.n_tensors = table.size();
  counts_.n_layers = table.n_layers();
  for (const LazyTensor& weight : table.tensors()) {
    counts_.total_bytes += weight.file_bytes;
    if (weight.expert) n_experts_absent_[weight.stage]++;
    words_[weight.id.value].group = weight.group;
  }
}

Loader::~Loader() {
  clear();
}

Error Loader::named(const Error& error, WeightId id) const noexcept try {
  return Error(error).in(fmt::format("weights: tensor {}", gguf::in_quotes(table_.tensor(id).name)));
} catch (const std::bad_alloc&) {
  return no_memory();
}

std::optional<uint64_t> Loader::address(WeightId id) const {
  const LazyTensor& weight = table_.tensor(id);
  if (!weight.group) return weight.address;
  const auto slot = slots_.address(*weight.group);
  return slot ? std::optional(*slot + weight.address) : std::nullopt;
}

bool Loader::try_lease(WeightId id) {
  if (!word(id).try_lease()) return false;
  if (const auto group = group_of(id)) slots_.used(*group);
  return true;
}

// More groups than cache slots can never be resident at once.
Result<void> Loader::check_room(std::span<const WeightId> ids) const {
  if (table_.pools().empty()) return {};
  std::vector<std::pair<uint32_t, GroupId>> groups;
  for (const WeightId id : ids) {
    if (const auto group = group_of(id)) groups.emplace_back(table_.group(*group).pool, *group);
  }
  std::ranges::sort(groups);
  const auto last = std::ranges::unique(groups).begin();
  for (uint32_t pool = 0; pool < table_.pools().size(); pool++) {
    const auto n = std::count_if(groups.begin(), last, [&](const auto& group) { return group.first == pool; });
    if (std::cmp_greater(n, table_.pools()[pool].n_slots)) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("weights: {} groups of weights asked for at once, the budget has room for {}", n,
                               table_.pools()[pool].n_slots)};
    }
  }
  return {};
}

Result<void> Loader::lease(std::span<const WeightId> ids) {
  TRY(check_room(ids));
  // A load that was under way with nobody waiting for it began before this call, and its failure is not this call's: it
  // is tried again. Each weight can be in that state once, unless others keep asking for it ahead.
  for (size_t attempt = 0;; attempt++) {
    bool was_unattended = false;
    Result<void> leased = lease_once(ids, was_unattended);
    if (leased.ok() || !was_unattended || attempt == ids.size()) return leased;
  }
}

Result<void> Loader::lease_once(std::span<const WeightId> ids, bool& was_unattended) {
  size_t n_hits = 0;
  while (n_hits < ids.size() && try_lease(ids[n_hits])) n_hits++;
  if (n_hits == ids.size()) return {};

  Lock lock(mutex_);
  Taken taken(*this, ids, n_hits);
  for (const auto& [flight, unattended] : taken.join_rest()) {
    if (!flight) continue;
    {
      const TraceSpan span("weights", "wait");
      flight->ended.wait(lock, [&] { return flight->over; });
    }
    if (flight->error) {
      was_unattended = unattended;
      return *flight->error;
    }
  }
  taken.keep();
  return {};
}

// A streamed weight is released under the mutex: a load may wait for its slot.
void Loader::release(WeightId id) {
  if (!group_of(id) && word(id).try_release()) return;
  const Lock lock(mutex_);
  word(id).release();
  quiet_.notify_all();
  unstick();
}

void Loader::prefetch(std::span<const WeightId> ids) {
  const auto is_cold = [&](WeightId id) {
    const LoadState state = word(id).state();
    return state == LoadState::unloaded || state == LoadState::failed;
  };
  if (std::ranges::none_of(ids, is_cold)) return;
  const Lock lock(mutex_);
  if (clearing_) return;
  for (const WeightId id : ids) {
    if (is_cold(id)) begin(id, Urgency::ahead);
  }
}

void Loader::give_back(std::span<const WeightId> ids) {
  for (const WeightId id : ids) {
    if (const auto group = group_of(id)) slots_.done(*group);
  }
}

Loader::Joined Loader::join(WeightId id) {
  if (clearing_) {
    auto refused = std::make_shared<Flight>();
    refused->n_waiters = 1;
    refused->over = true;
    refused->error = named(cleared_, id);
    return {refused, false};
  }
  Joined joined;
  switch (word(id).state()) {
    case LoadState::resident:
      word(id).lease();
      if (const auto group = group_of(id)) slots_.used(*group);
      return {};
    case LoadState::loading:
    case LoadState::in_flight:
      joined.flight = flights_[id.value];
      joined.unattended = joined.flight->n_waiters == 0;
      queue_.promote(id);
      break;
    case LoadState::unloaded:
    case LoadState::failed:
      joined.flight = begin(id, Urgency::awaited);
      break;
  }
  joined.flight->n_waiters++;
  return joined;
}

std::shared_ptr<Loader::Flight> Loader::begin(WeightId id, Urgency urgency) {
  const auto flight = std::make_shared<Flight>();
  queue_.push(id, urgency);
  flights_[id.value] = flight;
  word(id).move_to(LoadState::loading);
  counts_.n_loads++;
  if (n_flights_++ == 0) busy_since_ = clock_();
  start_threads(id);
  is_stuck_ = false;
  work_posted_.notify_all();
  return flight;
}

// With fewer threads than wished for the work goes on; with none the flight that asked for them fails.
void Loader::start_threads(WeightId id) {
  while (threads_.size() < n_loaders_) {
    auto started = without_exceptions([&]() -> Result<void> {
      threads_.reserve(n_loaders_);
      threads_.push_back(TRY(start_thread([this, loader = threads_.size()] { work(loader); })));
      return {};
    });
    if (started.ok()) continue;
    if (threads_.empty()) abandon(id, started.error());
    return;
  }
}

void Loader::work(size_t loader) {
  name_this_thread("loader");
  Lock lock(mutex_);
  while (true) {
    work_posted_.wait(lock, [&] { return stopping_ || (!queue_.empty() && !is_stuck_ && arena_ != Arena::reserving); });
    if (stopping_) return;
    if (arena_ == Arena::absent) {
      reserve(lock);
      continue;
    }
    const std::optional<Chunk> chunk = take_chunk();
    is_stuck_ = !chunk;
    if (is_stuck_) continue;
    lock.unlock();
    const Result<void> landed = without_exceptions([&] { return load_chunk(*chunk, loader); });
    lock.lock();
    end_chunk(lock, *chunk, landed, loader);
  }
}

// Whatever is queued waits for the arena, and fails with it.
void Loader::reserve(Lock& lock) {
  arena_ = Arena::reserving;
  lock.unlock();
  const Result<void> reserved =
      without_exceptions([&] { return placement_.reserve(table_.arena_bytes(), n_loaders_); });
  lock.lock();
  arena_ = reserved.ok() ? Arena::ready : Arena::absent;
  if (reserved.ok()) {
    work_posted_.notify_all();
    return;
  }
  abandon_all(reserved.error());
  report(lock);
}

bool Loader::has_place(WeightId id) {
  const auto group = group_of(id);
  if (!group) return true;
  const uint32_t pool = table_.group(*group).pool;
  if (is_full_[pool] && !slots_.has(*group)) return false;
  is_full_[pool] = !slots_.claim(*group, [this](GroupId tenant) { return empty(tenant); });
  return !is_full_[pool];
}

bool Loader::empty(GroupId group) {
  const auto is_idle = [&](WeightId id) { return !flights_[id.value] && word(id).n_leases() == 0; };
  const auto& weights = table_.group(group).weights;
  // A hit may come between the two looks: what has left by then is read again.
  return std::ranges::all_of(weights, is_idle) && std::ranges::all_of(weights, [&](WeightId id) {
           if (word(id).state() != LoadState::resident) return true;
           if (!word(id).try_unload_idle()) return false;
           left(id);
           return true;
         });
}

void Loader::unstick() {
  is_stuck_ = false;
  if (!queue_.empty()) work_posted_.notify_all();
}

std::optional<Loader::Chunk> Loader::take_chunk() {
  is_full_.assign(is_full_.size(), false);
  const auto next = queue_.first([this](WeightId queued) { return has_place(queued); });
  if (!next) return std::nullopt;
  const WeightId id = *next;
  const uint64_t total_rows = table_.tensor(id).shape.n_rows;
  Chunk chunk{id, flights_[id.value]};
  Flight& flight = *chunk.flight;
  chunk.first_row = flight.next_row;
  chunk.n_rows = std::min(table_.chunk_rows(id), total_rows - flight.next_row);
  flight.next_row += chunk.n_rows;
  flight.n_working++;
  if (flight.next_row == total_rows) queue_.remove(id);
  return chunk;
}

Result<void> Loader::load_chunk(const Chunk& chunk, size_t loader) {
  const LazyTensor& weight = table_.tensor(chunk.id);
  const File& file = file_.file(weight.shard);
  if (chunk.first_row == 0) TRY(check_unchanged(file));
  const uint64_t row_bytes = weight.shape.row_bytes();
  const auto staging = TRY(placement_.staging(loader));
  const auto rows = TRY([&] {
    const auto span = span_of("read", weight, chunk.n_rows * row_bytes);
    return read_chunk(file, weight.file_offset + chunk.first_row * row_bytes, chunk.n_rows * row_bytes, staging);
  }());
  const auto span = span_of("land", weight, rows.size());
  return placement_.land(*address(chunk.id), weight.shape, chunk.first_row, rows, loader);
}

// The second look at the file makes sure that no byte was read after it changed.
Result<void> Loader::finish_weight(WeightId id, size_t loader) {
  const LazyTensor& weight = table_.tensor(id);
  TRY(check_unchanged(file_.file(weight.shard)));
  const auto span = span_of("finish", weight, weight.file_bytes);
  const std::lock_guard guard(finish_mutex_);
  return placement_.finish(*address(id), weight.shape, loader);
}

void Loader::end_chunk(Lock& lock, const Chunk& chunk, const Result<void>& landed, size_t loader) {
  const LazyTensor& weight = table_.tensor(chunk.id);
  Flight& flight = *chunk.flight;
  flight.n_working--;
  if (landed.ok()) {
    counts_.n_reads++;
    counts_.read_bytes += chunk.n_rows * weight.shape.row_bytes();
  } else if (!flight.error) {
    flight.error = named(landed.error(), chunk.id);
    queue_.remove(chunk.id);
  }

  const bool all_taken = flight.error || flight.next_row == weight.shape.n_rows;
  if (flight.n_working > 0 || !all_taken) return report(lock);

  if (!flight.error) {
    word(chunk.id).move_to(LoadState::in_flight);
    lock.unlock();
    const Result<void> finished = without_exceptions([&] { return finish_weight(chunk.id, loader); });
    lock.lock();
    if (!finished.ok()) flight.error = named(finished.error(), chunk.id);
  }
  if (flight.error) placement_.give_up(*address(chunk.id), weight.shape);
  publish(chunk.id, flight);
  report(lock);
  wake(flight);
}

// Abandons loads that have not begun; chunks under way end first. REQUIRES: queued
void Loader::abandon(WeightId id, const Error& error) {
  const std::shared_ptr<Flight> flight = flights_[id.value];
  flight->error = named(error, id);
  queue_.remove(id);
  if (flight->n_working > 0) return;
  publish(id, *flight);
  wake(*flight);
}

void Loader::abandon_all(const Error& error) {
  while (const auto id = queue_.first([](WeightId) { return true; })) abandon(*id, error);
}

void Loader::publish(WeightId id, Flight& flight) {
  if (flight.error) {
    word(id).move_to(LoadState::failed);
    counts_.n_failures++;
  } else {
    word(id).publish(flight.n_waiters);
    flight.landed = true;
    arrived(id);
  }
  if (--n_flights_ == 0) counts_.seconds += seconds(clock_() - busy_since_);
  flights_[id.value].reset();
  unstick();
}

void Loader::wake(Flight& flight) {
  flight.over = true;
  flight.ended.notify_all();
  quiet_.notify_all();
}

void Loader::arrived(WeightId id) {
  n_resident_++;
  const LazyTensor& weight = table_.tensor(id);
  if (weight.expert && --n_experts_absent_[weight.stage] == 0 && !weight.group) {
    word(all_experts(weight.stage)).publish(0);
  }
  if (all_resident() && table_.groups().empty()) word(all_weights()).publish(0);
}

void Loader::left(WeightId id) {
  n_resident_--;
  const LazyTensor& weight = table_.tensor(id);
  if (weight.expert) n_experts_absent_[weight.stage]++;
}

bool Loader::try_unload(WeightId id) {
  const auto is_held_with_others = [&](WeightId all) {
    WeightWord& together = word(all);
    return together.state() == LoadState::resident && !together.try_unload();
  };
  if (is_held_with_others(all_weights())) return false;
  if (table_.tensor(id).expert && is_held_with_others(all_experts(table_.tensor(id).stage))) return false;
  if (!word(id).try_unload()) return false;
  left(id);
  return true;
}

void Loader::evict(WeightId id) {
  Lock lock(mutex_);
  quiet_.wait(lock, [&] {
    switch (word(id).state()) {
      case LoadState::unloaded:
        return true;
      case LoadState::failed:
        word(id).move_to(LoadState::unloaded);
        return true;
      case LoadState::loading:
      case LoadState::in_flight:
        return false;
      case LoadState::resident:
        return try_unload(id);
    }
    RF_UNREACHABLE("load state");
  });
}

void Loader::clear() {
  Lock lock(mutex_);
  quiet_.wait(lock, [&] { return !clearing_; });
  clearing_ = true;
  abandon_all(cleared_);
  quiet_.wait(lock, [&] { return n_flights_ == 0; });
  for (const LazyTensor& weight : table_.tensors()) {
    quiet_.wait(lock, [&] { return word(weight.id).state() != LoadState::resident || try_unload(weight.id); });
    word(weight.id).move_to(LoadState::unloaded);
  }
  slots_.reset();

  stopping_ = true;
  work_posted_.notify_all();
  lock.unlock();
  for (std::thread& thread : threads_) thread.join();
  if (arena_ == Arena::ready) placement_.release();
  lock.lock();
  threads_.clear();
  arena_ = Arena::absent;
  stopping_ = false;
  clearing_ = false;
  quiet_.notify_all();
}

}  // namespace rocmforge
