#include "support/support.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace rocmforge::testing {

namespace fs = std::filesystem;

namespace {

// Where tests that were built elsewhere find their files.
std::string folder(const char* variable, const char* otherwise) {
  const char* named = std::getenv(variable);
  return named != nullptr ? named : otherwise;
}

}  // namespace

std::string source_path(std::string_view relative) {
  return folder("ROCMFORGE_TEST_SOURCE", RF_SOURCE_DIR) + "/" + std::string(relative);
}

std::string data_path(std::string_view relative) {
  return source_path("tests/data/" + std::string(relative));
}

std::string shared_path(std::string_view relative) {
  if (relative.starts_with("goldens/")) {
    const std::string committed = data_path(relative.substr(8));
    if (fs::is_regular_file(committed)) return committed;
  }
  const fs::path path = fs::path(folder("ROCMFORGE_TEST_SHARED", RF_SOURCE_DIR "/../shared")) / relative;
  return fs::exists(path) ? path.string() : std::string();
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<float> read_floats(const std::string& path) {
  const std::string bytes = read_text(path);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

TempDir::TempDir() {
  std::string pattern = (fs::temp_directory_path() / "rocmforge-XXXXXX").string();
  const char* made = ::mkdtemp(pattern.data());
  EXPECT_NE(made, nullptr) << "cannot make a temporary directory";
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string TempDir::write(std::string_view name, std::string_view bytes) const {
  const std::string path = file(name);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

std::mt19937_64 seeded_rng() {
  const char* asked = std::getenv("ROCMFORGE_TEST_SEED");
  const uint64_t seed = asked ? std::strtoull(asked, nullptr, 0) : 20261115;
  ::testing::Test::RecordProperty("seed", std::to_string(seed));
  return std::mt19937_64(seed);
}

}  // namespace rocmforge::testing
