#pragma once
// What tests of every room share: where data lies, a folder that cleans up after itself, a seed that is printed.

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge::testing {

// A file of tests/data, or of the repository (ROCMFORGE_TEST_SOURCE: of another copy of it).
std::string data_path(std::string_view relative);
std::string source_path(std::string_view relative);

// A file or folder of the reference material. The file goldens/NAME is tests/data/NAME where that was committed; the
// rest, and whole folders, lie beside the checkout (or in ROCMFORGE_TEST_SHARED) and are no part of it. Empty when
// absent. The caller skips then, saying so:  RF_NEED_SHARED(path, "goldens/blocks/q4_0.f32");
std::string shared_path(std::string_view relative);

// The whole file; fails the test when it cannot be read.
std::string read_text(const std::string& path);
std::vector<float> read_floats(const std::string& path);

// A folder under the system's temporary directory, removed with everything in it.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  // Writes `bytes` to a new file of that name and gives its path.
  std::string write(std::string_view name, std::string_view bytes) const;

 private:
  std::string path_;
};

// A generator seeded from ROCMFORGE_TEST_SEED or a fixed default; the seed is recorded with the test's result.
std::mt19937_64 seeded_rng();

}  // namespace rocmforge::testing

#define RF_NEED_SHARED(name, relative)                                  \
  const std::string name = ::rocmforge::testing::shared_path(relative); \
  if (name.empty()) GTEST_SKIP() << "reference material '" << (relative) << "' is not beside the checkout"
