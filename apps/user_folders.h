#pragma once
// Where this user's files lie, by the XDG base directory rules. Empty when there is no home.

#include <string>

namespace rocmforge::apps {

std::string chat_history_file();   // $XDG_STATE_HOME, else ~/.local/state, /rocmforge/chat_history
std::string user_settings_file();  // $XDG_CONFIG_HOME, else ~/.config, /rocmforge/config.toml
std::string model_cache_file();    // $XDG_CACHE_HOME, else ~/.cache, /rocmforge/models.json

std::string self_test_file();  // the same folder's gpu_self_tests.json

}  // namespace rocmforge::apps
