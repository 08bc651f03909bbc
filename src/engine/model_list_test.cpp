#include "engine/model_list.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file_writer.h"
#include "gguf/writer.h"
#include "support/support.h"

namespace rocmforge {
namespace {

namespace fs = std::filesystem;
using testing::TempDir;

// A model of one tensor and a few facts; shard `number` of `count` when there are several.
std::string write_model(const std::string& path, const std::string& name, uint32_t number = 0, uint32_t count = 1,
                        std::string_view chat_template = {}) {
  gguf::HeaderBuilder header;
  if (!chat_template.empty()) header.set_string("tokenizer.chat_template", chat_template);
  if (number == 0) {
    header.set_string("general.architecture", "llama");
    header.set_string("general.name", name);
    header.set_u32("llama.context_length", 4096);
    header.set_u32("llama.embedding_length", 32);
  }
  if (count > 1) {
    header.set_u16("split.no", static_cast<uint16_t>(number));
    header.set_u16("split.count", static_cast<uint16_t>(count));
    header.set_i32("split.tensors.count", static_cast<int32_t>(count));
  }
  header.add_tensor("t" + std::to_string(number), DType::q8_0, {32, 2});
  auto writer = gguf::GgufWriter::create(path, header, {.durable = false});
  EXPECT_TRUE(writer.ok()) << writer.error().message;
  const std::vector<std::byte> data(2 * 34);
  EXPECT_TRUE(writer->write(data).ok());
  EXPECT_TRUE(writer->finish().ok());
  return path;
}

TEST(ModelList, ShowsModelsSplitOnesAndBrokenOnes) {
  const TempDir dir, other;
  write_model(dir.file("b.gguf"), "Bee");
  write_model(dir.file("big-00001-of-00002.gguf"), "Big", 0, 2);
  write_model(dir.file("big-00002-of-00002.gguf"), "Big", 1, 2);
  write_model(dir.file("torn-00002-of-00002.gguf"), "Torn", 1, 2);
  dir.write("junk.gguf", "this is no model");
  dir.write("empty.gguf", "");
  dir.write("notes.txt", "no model either");
  fs::create_directory(dir.file("folder.gguf"));
  fs::create_symlink(dir.file("nowhere"), dir.file("dangling.gguf"));
  const std::string bundled = write_model(other.file("a.gguf"), "Bundled");

  const auto models = list_models({.folders = {dir.path(), dir.file("absent")}, .files = {bundled}});
  std::vector<std::string> names;
  for (const ListedModel& m : models) names.push_back(m.name);
  ASSERT_EQ(names, (std::vector<std::string>{"a", "b", "big", "dangling", "empty", "junk", "torn"}));
  EXPECT_EQ(models[0].path, bundled);
  ASSERT_TRUE(models[1].facts);
  EXPECT_EQ(*models[1].facts, (ModelFacts{.architecture = "llama",
                                          .name = "Bee",
                                          .n_context_train = 4096,
                                          .n_parameters = 64,
                                          .width = 32,
                                          .file_type = "Q8_0",
                                          .chat_template = "none"}));
  EXPECT_EQ(models[1].file_bytes, fs::file_size(dir.file("b.gguf")));
  ASSERT_TRUE(models[2].facts);
  EXPECT_EQ(models[2].n_files, 2u);
  EXPECT_EQ(models[2].facts->n_parameters, 128u);
  EXPECT_EQ(models[2].path, dir.file("big-00001-of-00002.gguf"));
  EXPECT_EQ(models[3].error->code, ErrorCode::file_not_found);
  EXPECT_EQ(models[4].error->code, ErrorCode::file_empty);
  EXPECT_EQ(models[5].error->code, ErrorCode::gguf_bad_magic);
  EXPECT_EQ(models[6].error->code, ErrorCode::file_not_found);
}

TEST(ModelList, TellsWhetherTheChatTemplateSaysWhoSpeaks) {
  const TempDir dir;
  write_model(dir.file("a.gguf"), "A");
  write_model(dir.file("b.gguf"), "B", 0, 1, "{% for m in messages %}{{ m.content }}{% endfor %}");
  write_model(dir.file("c.gguf"), "C", 0, 1, "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}");
  for (const char* from : {"the files", "the cache"}) {
    const auto models = list_models({.folders = {dir.path()}, .files = {}, .cache_file = dir.file("cache.json")});
    ASSERT_EQ(models.size(), 3u) << from;
    EXPECT_EQ(models[0].facts->chat_template, "none") << from;
    EXPECT_EQ(models[1].facts->chat_template, "joined") << from;
    EXPECT_EQ(models[2].facts->chat_template, "roles") << from;
  }
}

TEST(ModelList, FindsModelsByTheNamesItLists) {
  const TempDir dir;
  write_model(dir.file("b.gguf"), "Bee");
  write_model(dir.file("big-00001-of-00002.gguf"), "Big", 0, 2);
  write_model(dir.file("big-00002-of-00002.gguf"), "Big", 1, 2);
  EXPECT_EQ(find_in_folder(dir.path(), "b"), dir.file("b.gguf"));
  EXPECT_EQ(find_in_folder(dir.path(), "b.gguf"), dir.file("b.gguf"));
  EXPECT_EQ(find_in_folder(dir.path(), "big"), dir.file("big-00001-of-00002.gguf"));
  EXPECT_EQ(find_in_folder(dir.path(), "bi"), std::nullopt);
  EXPECT_EQ(find_in_folder(dir.file("absent"), "b"), std::nullopt);
}

class ModelListCache : public ::testing::Test {
 protected:
  std::vector<ListedModel> list() const { return list_models({.folders = {models_.path()}, .cache_file = cache_}); }
  std::string text() const { return testing::read_text(cache_); }

  const TempDir models_, home_;
  const std::string cache_ = home_.file("not/yet/there/models.json");
};

TEST_F(ModelListCache, AnswersForFilesThatHaveNotChanged) {
  const std::string path = write_model(models_.file("m.gguf"), "First");
  const auto time = fs::last_write_time(path);
  EXPECT_EQ(list()[0].facts->name, "First");
  // The same size and time, other bytes: only the cache still says "First".
  write_model(path, "Other");
  fs::last_write_time(path, time);
  EXPECT_EQ(list()[0].facts->name, "First");
  fs::last_write_time(path, time + std::chrono::seconds(1));
  EXPECT_EQ(list()[0].facts->name, "Other");
  fs::last_write_time(path, time);
  EXPECT_EQ(list()[0].facts->name, "Other") << "what the file used to be is forgotten";
  for (const auto& entry : fs::directory_iterator(fs::path(cache_).parent_path())) {
    EXPECT_EQ(entry.path().filename(), "models.json") << "nothing else is left behind";
  }
}

TEST_F(ModelListCache, IsIgnoredWhenItIsDamaged) {
  write_model(models_.file("m.gguf"), "First");
  list();
  const std::string good = text();
  std::vector<std::string> damaged = {"",
                                      "{",
                                      "[]",
                                      "null",
                                      R"({"version":1})",
                                      R"({"version":2,"models":[]})",
                                      R"({"version":1,"models":[1,{},{"path":1}]})",
                                      std::string(100, '\0')};
  for (size_t n = 0; n < good.size(); n += 5) damaged.push_back(good.substr(0, n));
  for (size_t n = 0; n < good.size(); n += 3) damaged.push_back(good), damaged.back()[n] ^= 0x11;
  for (const std::string& bytes : damaged) {
    auto writer = FileWriter::create(cache_);
    ASSERT_TRUE(writer->write(std::as_bytes(std::span(bytes))).ok() && writer->commit().ok());
    const auto models = list();
    ASSERT_EQ(models.size(), 1u);
    ASSERT_TRUE(models[0].facts) << bytes;
  }
}

TEST_F(ModelListCache, MayBeImpossibleToWrite) {
  write_model(models_.file("m.gguf"), "First");
  home_.write("file", "");
  const auto models = list_models({.folders = {models_.path()}, .cache_file = home_.file("file/models.json")});
  EXPECT_EQ(models[0].facts->name, "First");
}

}  // namespace
}  // namespace rocmforge
