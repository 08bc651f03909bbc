#include "server/page/page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <string>

namespace rocmforge::server {
namespace {

const PageAsset* find(std::string_view path) {
  auto assets = page_assets();
  auto it = std::ranges::find(assets, path, &PageAsset::path);
  return it == assets.end() ? nullptr : &*it;
}

std::set<std::string> all_matches(std::string_view text, const char* pattern) {
  std::set<std::string> found;
  std::regex regex(pattern);
  for (std::cregex_iterator it(text.data(), text.data() + text.size(), regex), end; it != end; ++it) {
    found.insert((*it)[1].str());
  }
  return found;
}

TEST(Page, AssetsAreSortedAndDistinct) {
  auto assets = page_assets();
  EXPECT_TRUE(std::ranges::is_sorted(assets, {}, &PageAsset::path));
  std::set<std::string_view> etags;
  for (const PageAsset& asset : assets) {
    EXPECT_FALSE(asset.bytes.empty()) << asset.path;
    EXPECT_TRUE(asset.etag.starts_with('"') && asset.etag.ends_with('"')) << asset.path;
    EXPECT_TRUE(etags.insert(asset.etag).second) << asset.path;
  }
}

TEST(Page, EverythingThePageLoadsIsBuiltIn) {
  const PageAsset* index = find("/");
  ASSERT_NE(index, nullptr);
  EXPECT_EQ(index->content_type, "text/html; charset=utf-8");
  auto names = all_matches(index->bytes, R"re((?:src|href)="([^"#]+)")re");
  EXPECT_TRUE(names.contains("page/app.js"));
  for (const std::string& name : names) EXPECT_NE(find("/" + name), nullptr) << name;
  for (const PageAsset& asset : page_assets()) {
    for (const std::string& name : all_matches(asset.bytes, R"re(from "\./([^"]+)")re")) {
      EXPECT_NE(find("/page/" + name), nullptr) << asset.path << " imports " << name;
    }
  }
}

// The policy would stop these in the browser; here they are found before.
TEST(Page, NothingNeedsALooserPolicy) {
  for (const PageAsset& asset : page_assets()) {
    std::string text(asset.bytes);
    EXPECT_FALSE(std::regex_search(text, std::regex(R"re(<script(?![^>]*\ssrc=)|<style| style="| on[a-z]+=")re")))
        << asset.path;
    EXPECT_FALSE(
        std::regex_search(text, std::regex(R"re(innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\()re")))
        << asset.path;
    EXPECT_FALSE(std::regex_search(text, std::regex(R"re((?:src|href|url\()="?(?:https?:)?//)re"))) << asset.path;
  }
}

}  // namespace
}  // namespace rocmforge::server
