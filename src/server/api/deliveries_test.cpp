#include "server/api/deliveries.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <thread>

namespace rocmforge::server {
namespace {

TokenEvent token(int32_t id) {
  return {.token = TokenId(id), .text = {}};
}

struct DeliveriesTest : ::testing::Test {
  // Notes each token as 100 * request + token, and an end as -request.
  EventReceiver receiver(int32_t request) {
    return [this, request, alive = alive_](RequestEvent&& event) {
      const auto* said = std::get_if<TokenEvent>(&event);
      received_.push_back(said ? 100 * request + said->token.value : -request);
    };
  }
  void run_loop() {
    while (!posted_.empty()) {
      const auto call = std::move(posted_.front());
      posted_.pop_front();
      call();
    }
  }

  std::deque<std::function<void()>> posted_;
  std::vector<int32_t> received_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
  std::shared_ptr<Deliveries> deliveries_ =
      Deliveries::make([this](std::function<void()> call) { posted_.push_back(std::move(call)); });
};

TEST_F(DeliveriesTest, WakesTheLoopOnceForManyEvents) {
  const EventReceiver first = deliveries_->to(receiver(1)), second = deliveries_->to(receiver(2));
  for (int32_t i = 0; i < 3; i++) {
    first(token(i));
    second(token(i));
  }
  EXPECT_EQ(posted_.size(), 1u);
  EXPECT_TRUE(received_.empty()) << "not on this thread";
  run_loop();
  EXPECT_EQ(received_, (std::vector<int32_t>{100, 200, 101, 201, 102, 202}));
  first(token(3));
  EXPECT_EQ(posted_.size(), 1u);
  run_loop();
  EXPECT_EQ(received_.back(), 103);
}

TEST_F(DeliveriesTest, TokensOfOneStepWaitForTheLastOfThem) {
  const EventReceiver first = deliveries_->to(receiver(1)), second = deliveries_->to(receiver(2));
  first(TokenEvent{.token = TokenId(0), .text = {}, .more_follow = true});
  EXPECT_TRUE(posted_.empty());
  second(token(0));
  EXPECT_EQ(posted_.size(), 1u);
  run_loop();
  EXPECT_EQ(received_, (std::vector<int32_t>{100, 200}));
}

TEST(Deliveries, TheLoopMayTakeEventsBeforeItsWakerGoesOn) {
  size_t n_received = 0;
  const auto deliveries = Deliveries::make([](const std::function<void()>& call) { std::thread(call).join(); });
  const EventReceiver receiving = deliveries->to([&](RequestEvent&&) { n_received++; });
  receiving(token(0));
  EXPECT_EQ(n_received, 1u);
}

TEST_F(DeliveriesTest, AReceiverEndsWithItsLastEventAndNotWithTheEngine) {
  {
    const EventReceiver receiving = deliveries_->to(receiver(1));
    receiving(token(0));
    receiving(FinishEvent{});
  }
  EXPECT_EQ(alive_.use_count(), 2);
  run_loop();
  EXPECT_EQ(received_, (std::vector<int32_t>{100, -1}));
  EXPECT_EQ(alive_.use_count(), 1);
}

TEST_F(DeliveriesTest, NothingPilesUpBehindALoopThatIsTooSlow) {
  const EventReceiver receiving = deliveries_->to(receiver(1));
  for (size_t i = 0; i < Deliveries::kMaxWaiting; i++) receiving(token(static_cast<int32_t>(i)));
  ASSERT_EQ(received_.size(), Deliveries::kMaxWaiting) << "delivered by who brought them";
  for (size_t i = 0; i < received_.size(); i++) EXPECT_EQ(received_[i], 100 + static_cast<int32_t>(i));
  run_loop();
  EXPECT_EQ(received_.size(), Deliveries::kMaxWaiting);
}

TEST_F(DeliveriesTest, AfterTheLoopHasEndedEventsStillArrive) {
  const EventReceiver receiving = deliveries_->to(receiver(1));
  receiving(token(0));
  deliveries_->close();
  EXPECT_EQ(received_, (std::vector<int32_t>{100}));
  receiving(token(1));
  receiving(FinishEvent{});
  EXPECT_EQ(received_, (std::vector<int32_t>{100, 101, -1}));
  EXPECT_EQ(posted_.size(), 1u);
  run_loop();
  EXPECT_EQ(received_.size(), 3u);
}

TEST(Deliveries, KeepTheOrderOfEachOfManyThreads) {
  constexpr int32_t kThreads = 4, kTokens = 40'000;
  std::mutex mutex;
  std::deque<std::function<void()>> posted;
  std::atomic<bool> is_over = false;
  const auto deliveries = Deliveries::make([&](std::function<void()> call) {
    const std::lock_guard lock(mutex);
    posted.push_back(std::move(call));
  });
  const auto run_posted = [&] {
    std::unique_lock lock(mutex);
    if (posted.empty()) return false;
    const auto call = std::move(posted.front());
    posted.pop_front();
    lock.unlock();
    call();
    return true;
  };
  std::thread loop([&] {
    while (!is_over) run_posted();
    while (run_posted()) continue;
  });
  std::vector<int32_t> next(kThreads, 0);  // guarded by the deliveries: one receiver at a time
  std::vector<std::thread> engines;
  for (int32_t t = 0; t < kThreads; t++) {
    engines.emplace_back([&, t] {
      const EventReceiver receiving = deliveries->to([&, t](RequestEvent&& event) {
        EXPECT_EQ(std::get<TokenEvent>(event).token.value, next[static_cast<size_t>(t)]++);
      });
      for (int32_t i = 0; i < kTokens; i++) receiving(token(i));
    });
  }
  for (std::thread& engine : engines) engine.join();
  is_over = true;
  loop.join();
  deliveries->close();
  EXPECT_EQ(next, std::vector<int32_t>(kThreads, kTokens));
}

}  // namespace
}  // namespace rocmforge::server
