#include "gguf/split.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "gguf/raw_gguf.h"
#include "gguf/reader.h"
#include "support/support.h"

namespace rocmforge::gguf {
namespace {

using rocmforge::testing::TempDir;
using testing::RawGguf;
namespace fs = std::filesystem;

void set_key(RawGguf& file, const std::string& name, testing::RawValue value) {
  std::erase_if(file.keys, [&](const testing::RawKey& key) { return key.name == name; });
  file.keys.push_back({name, std::move(value)});
}

// Shard `number` of `count`, with one tensor; the first has the metadata.
RawGguf shard(uint16_t number, uint16_t count) {
  RawGguf file;
  if (number == 0) file.keys.push_back({"general.architecture", testing::raw_string("llama")});
  set_key(file, "split.no", testing::raw_number(ValueType::u16, number));
  set_key(file, "split.count", testing::raw_number(ValueType::u16, count));
  set_key(file, "split.tensors.count", testing::raw_number(ValueType::i32, int32_t{count}));
  file.tensors = {{"t" + std::to_string(number), {8u + number}, 0, 0}};
  file.n_data_bytes = 64;
  return file;
}

// A folder with a whole model of `count` shards, to be spoiled.
class SplitModel {
 public:
  explicit SplitModel(uint16_t count) : count_(count) {
    for (uint16_t i = 0; i < count; i++) write(i, shard(i, count));
  }
  void write(uint16_t number, const RawGguf& file) { folder_.write(name(number), file.file()); }
  std::string name(uint16_t number) const { return shard_path("model", number, count_); }
  std::string path(uint16_t number) const { return folder_.file(name(number)); }

  std::string code(uint16_t number = 0) const {
    const auto file = GgufFile::open(path(number));
    return file.ok() ? "ok" : std::string(error_name(file.error().code));
  }
  std::string message(uint16_t number = 0) const { return GgufFile::open(path(number)).error().message; }

 private:
  TempDir folder_;
  uint16_t count_;
};

TEST(Split, NamesOfShards) {
  EXPECT_EQ(shard_path("dir/m", 0, 3), "dir/m-00001-of-00003.gguf");
  EXPECT_EQ(shard_path("m", 1023, 1024), "m-01024-of-01024.gguf");
  EXPECT_EQ(split_stem("dir/m-00002-of-00003.gguf", {1, 3, {}}), "dir/m");
  EXPECT_EQ(split_stem("dir/m-00001-of-00003.gguf", {1, 3, {}}), std::nullopt);
  EXPECT_EQ(split_stem("m.gguf", {0, 3, {}}), std::nullopt);
  EXPECT_EQ(split_stem("-00001-of-00003.gguf", {0, 3, {}}), "");
}

TEST(Split, OpensAllShards) {
  const SplitModel model(3);
  const auto file = GgufFile::open(model.path(0));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->n_shards(), 3u);
  EXPECT_EQ(file->metadata().string("general.architecture").value(), "llama");
  ASSERT_EQ(file->tensors().size(), 3u);
  uint64_t n_header_bytes = 0;
  for (uint16_t i = 0; i < 3; i++) {
    const TensorInfo* info = file->find_tensor("t" + std::to_string(i));
    ASSERT_NE(info, nullptr);
    EXPECT_EQ(info->shard, i);
    EXPECT_EQ(info->n_bytes, 4u * (8 + i));
    EXPECT_EQ(file->file(i).path(), model.path(i));
    EXPECT_LE(info->offset + info->n_bytes, file->file(i).size());
    n_header_bytes += shard(i, 3).header().bytes().size();
  }
  EXPECT_EQ(file->header_bytes(), n_header_bytes);
}

TEST(Split, ShardsMayHaveTheirOwnAlignment) {
  SplitModel model(2);
  RawGguf wide = shard(1, 2);
  wide.keys.push_back({"general.alignment", testing::raw_u32(4096)});
  wide.alignment = 4096;
  model.write(1, wide);
  const auto file = GgufFile::open(model.path(0));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->find_tensor("t1")->offset, 4096u);
  EXPECT_EQ(file->alignment(), 32u);
}

TEST(Split, AModelOfOneShardMayHaveAnyName) {
  const TempDir folder;
  EXPECT_TRUE(GgufFile::open(folder.write("any.gguf", shard(0, 1).file())).ok());
  RawGguf bare = shard(0, 1);
  std::erase_if(bare.keys, [](const testing::RawKey& key) { return key.name != "split.count"; });
  EXPECT_TRUE(GgufFile::open(folder.write("bare.gguf", bare.file())).ok());
  // A name is only a name: without split keys the file stands alone.
  EXPECT_TRUE(GgufFile::open(folder.write("m-00002-of-00003.gguf", testing::small_gguf().file())).ok());
}

TEST(Split, OpeningALaterShardNamesTheFirst) {
  const SplitModel model(3);
  EXPECT_EQ(model.code(1), "gguf_split_number");
  EXPECT_NE(model.message(1).find("is shard 2 of 3; open the first, '" + model.path(0) + "'"), std::string::npos)
      << model.message(1);
}

TEST(Split, ARenamedShardIsRefused) {
  const TempDir folder;
  const auto file = GgufFile::open(folder.write("model.gguf", shard(0, 3).file()));
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::gguf_split_mismatch);
  EXPECT_NE(file.error().message.find("must end in '-00001-of-00003.gguf'"), std::string::npos);
}

TEST(Split, CountsOutOfRangeAreRefused) {
  using testing::raw_number;
  const std::tuple<const char*, testing::RawValue, const char*> bad[] = {
      {"split.count", raw_number(ValueType::u16, uint16_t{0}), "gguf_split_count"},
      {"split.count", raw_number(ValueType::u16, uint16_t{65535}), "gguf_split_count"},
      {"split.count", raw_number(ValueType::u16, uint16_t{1025}), "gguf_split_count"},
      {"split.count", raw_number(ValueType::u64, uint64_t{1} << 32), "gguf_split_count"},
      {"split.count", raw_number(ValueType::u64, ~uint64_t{0}), "gguf_split_count"},
      {"split.count", raw_number(ValueType::i32, int32_t{-3}), "gguf_split_count"},
      {"split.count", testing::raw_string("3"), "gguf_key_type"},
      {"split.count", raw_number(ValueType::f32, 3.0f), "gguf_key_type"},
      {"split.no", raw_number(ValueType::u16, uint16_t{3}), "gguf_split_number"},
      {"split.no", raw_number(ValueType::u16, uint16_t{65535}), "gguf_split_number"},
      {"split.no", raw_number(ValueType::i32, int32_t{-1}), "gguf_split_number"},
      {"split.no", raw_number(ValueType::boolean, uint8_t{0}), "gguf_key_type"},
      {"split.tensors.count", raw_number(ValueType::i32, int32_t{-1}), "gguf_too_many_tensors"},
      {"split.tensors.count", raw_number(ValueType::u64, ~uint64_t{0}), "gguf_too_many_tensors"},
      {"split.tensors.count", raw_number(ValueType::i32, int32_t{2}), "gguf_split_mismatch"},
      {"split.tensors.count", raw_number(ValueType::i32, int32_t{4}), "gguf_split_mismatch"},
      {"split.tensors.count", testing::raw_string("3"), "gguf_key_type"},
  };
  for (const auto& [key, value, code] : bad) {
    SplitModel model(3);
    RawGguf first = shard(0, 3);
    set_key(first, key, value);
    model.write(0, first);
    EXPECT_EQ(model.code(), code) << key;
    EXPECT_NE(model.message().find("/model-0000"), std::string::npos) << model.message();  // which file it is
  }
  for (const char* key : {"split.no", "split.tensors.count"}) {
    SplitModel model(3);
    RawGguf first = shard(0, 3);
    std::erase_if(first.keys, [&](const testing::RawKey& k) { return k.name == key; });
    model.write(0, first);
    EXPECT_EQ(model.code(), "gguf_key_missing") << key;
  }
}

TEST(Split, AMissingShardIsNamed) {
  const SplitModel model(3);
  fs::remove(model.path(2));
  EXPECT_EQ(model.code(), "gguf_split_missing");
  EXPECT_NE(model.message().find(model.path(2)), std::string::npos) << model.message();
}

TEST(Split, AShardThatIsNoFileIsRefusedWithoutWaiting) {
  const SplitModel model(3);
  const auto replace_with_link = [&](const fs::path& target) {
    fs::remove(model.path(1));
    fs::create_symlink(target, model.path(1));
  };
  for (const char* target : {"/dev/zero", "/dev/random", "/dev/null", "."}) {
    replace_with_link(target);
    EXPECT_EQ(model.code(), "file_not_regular") << target;
  }
  ASSERT_EQ(::mkfifo((model.path(0) + ".pipe").c_str(), 0600), 0);
  replace_with_link(model.path(0) + ".pipe");
  EXPECT_EQ(model.code(), "file_not_regular");
  replace_with_link("nowhere");
  EXPECT_EQ(model.code(), "gguf_split_missing");
}

TEST(Split, ShardsThatDoNotBelongTogetherAreRefused) {
  const auto code_with = [](const RawGguf& second) {
    SplitModel model(3);
    model.write(1, second);
    return model.code();
  };
  EXPECT_EQ(code_with(shard(1, 3)), "ok");
  EXPECT_EQ(code_with(shard(2, 3)), "gguf_split_mismatch");
  EXPECT_EQ(code_with(shard(0, 3)), "gguf_split_mismatch");
  EXPECT_EQ(code_with(shard(1, 4)), "gguf_split_mismatch");
  EXPECT_EQ(code_with(testing::small_gguf()), "gguf_split_mismatch");
  RawGguf other_total = shard(1, 3);
  set_key(other_total, "split.tensors.count", testing::raw_number(ValueType::i32, int32_t{7}));
  EXPECT_EQ(code_with(other_total), "gguf_split_mismatch");
  RawGguf repeated = shard(1, 3);
  repeated.tensors[0].name = "t0";
  EXPECT_EQ(code_with(repeated), "gguf_duplicate_tensor");
  RawGguf broken = shard(1, 3);
  broken.n_data_bytes = 8;
  EXPECT_EQ(code_with(broken), "gguf_tensor_out_of_file");
  RawGguf more = shard(1, 3);
  more.tensors.push_back({"extra", {1}, 0, 64});
  more.n_data_bytes = 128;
  EXPECT_EQ(code_with(more), "gguf_split_mismatch");
}

TEST(Split, LimitsCountAllShardsTogether) {
  const SplitModel model(3);
  Limits limits;
  limits.max_tensors = 3;
  limits.max_shards = 3;
  limits.max_metadata_bytes = GgufFile::open(model.path(0)).value().header_bytes();
  EXPECT_TRUE(GgufFile::open(model.path(0), limits).ok());
  Limits few_bytes = limits;
  few_bytes.max_metadata_bytes--;
  EXPECT_EQ(GgufFile::open(model.path(0), few_bytes).error().code, ErrorCode::gguf_metadata_too_large);
  Limits few_tensors = limits;
  few_tensors.max_tensors = 2;
  EXPECT_EQ(GgufFile::open(model.path(0), few_tensors).error().code, ErrorCode::gguf_too_many_tensors);
  Limits few_shards = limits;
  few_shards.max_shards = 2;
  EXPECT_EQ(GgufFile::open(model.path(0), few_shards).error().code, ErrorCode::gguf_split_count);
}

}  // namespace
}  // namespace rocmforge::gguf
