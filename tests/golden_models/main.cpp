// Makes the tiny random models that the reference's logits in tests/data/logits belong to.
//
// usage: golden_models FOLDER     files that are there and newer than this program are kept

#include <cstdio>
#include <filesystem>

#include "recipe.h"

namespace fs = std::filesystem;
using namespace rocmforge::golden_models;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: golden_models FOLDER\n");
    return 2;
  }
  const fs::path folder = argv[1];
  std::error_code error;
  const auto made = fs::last_write_time("/proc/self/exe", error);
  fs::create_directories(folder / "variants", error);
  const auto make_all = [&](const fs::path& into, const std::vector<Recipe>& recipes) {
    for (const Recipe& recipe : recipes) {
      const fs::path path = into / (recipe.name + ".gguf");
      std::error_code absent;
      if (fs::last_write_time(path, absent) > made && !absent) continue;
      if (!write_model(path.string(), recipe)) {
        std::fprintf(stderr, "golden_models: '%s' cannot be written\n", path.c_str());
        return false;
      }
    }
    return true;
  };
  return make_all(folder, first_recipes()) && make_all(folder / "variants", variant_recipes()) &&
                 make_all(folder / "variants", encoder_recipes())
             ? 0
             : 1;
}
