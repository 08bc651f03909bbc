#include "server/http/exchange.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace rocmforge::server {
namespace {

constexpr size_t kKiB = 1024;

class ExchangeStreams : public ::testing::Test {
 protected:
  void SetUp() override {
    for (Exchange& exchange : exchanges_) {
      exchange.hold_answer(ByteHold(budget_));
      exchange.start_stream({});
    }
  }

  std::shared_ptr<ByteBudget> budget_ = std::make_shared<ByteBudget>(300 * kKiB);
  std::array<Exchange, 3> exchanges_ = {Exchange(Request{}), Exchange(Request{}), Exchange(Request{})};
};

TEST_F(ExchangeStreams, UnsentBytesCountUntilTheyAreSent) {
  Exchange& stream = exchanges_[0];
  stream.write(std::string(100 * kKiB, 'a'));
  EXPECT_EQ(budget_->used_bytes(), 100 * kKiB);
  EXPECT_EQ(stream.take().bytes.size(), 100 * kKiB);
  EXPECT_EQ(budget_->used_bytes(), 100 * kKiB) << "perhaps still on their way into the socket";
  stream.write(std::string(50 * kKiB, 'b'));
  EXPECT_EQ(budget_->used_bytes(), 150 * kKiB);
  EXPECT_EQ(stream.take().bytes.size(), 50 * kKiB);
  EXPECT_EQ(budget_->used_bytes(), 50 * kKiB);
  EXPECT_EQ(stream.take().bytes.size(), 0u);
  EXPECT_EQ(budget_->used_bytes(), 0u);
}

TEST_F(ExchangeStreams, OneForWhichTheBudgetHasNoRoomIsCutOffAlone) {
  exchanges_[0].write(std::string(200 * kKiB, 'a'));
  exchanges_[1].write(std::string(150 * kKiB, 'b'));
  EXPECT_TRUE(exchanges_[1].is_cancelled());
  EXPECT_FALSE(exchanges_[0].is_cancelled());
  exchanges_[2].write(std::string(Exchange::kUncountedBytes, 'c'));
  EXPECT_FALSE(exchanges_[2].is_cancelled()) << "who reads needs no room";
  EXPECT_EQ(budget_->used_bytes(), 200 * kKiB);
}

}  // namespace
}  // namespace rocmforge::server
