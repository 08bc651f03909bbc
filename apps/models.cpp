#include <fmt/core.h>

#include "base/json.h"
#include "base/units.h"
#include "commands.h"
#include "engine/model_list.h"
#include "model_path.h"
#include "terminal.h"
#include "user_folders.h"

namespace rocmforge::apps {
namespace {

std::string json_report(const std::string& directory, const std::vector<ListedModel>& models) {
  JsonWriter w(JsonWriter::Style::pretty);
  w.begin_object().key("directory").value(directory).key("models").begin_array();
  for (const ListedModel& m : models) {
    w.begin_object().key("name").value(m.name).key("path").value(m.path);
    w.key("n_files").value(m.n_files).key("file_bytes").value(m.file_bytes).key("modified").value(m.modified_seconds);
    if (m.facts) {
      w.key("architecture").value(m.facts->architecture).key("title").value(m.facts->name);
      w.key("n_parameters").value(m.facts->n_parameters).key("file_type").value(m.facts->file_type);
      w.key("context_length").value(m.facts->n_context_train).key("n_vocab").value(m.facts->n_vocab);
    } else {
      w.key("error").value(m.error->message);
    }
    w.end_object();
  }
  w.end_array().end_object();
  return w.take() + "\n";
}

std::string text_report(const std::vector<ListedModel>& models) {
  using Align = Table::Align;
  Table table({Align::left, Align::left, Align::right, Align::left, Align::right, Align::right});
  table.add({"name", "architecture", "parameters", "type", "size", "context"});
  std::string broken;
  for (const ListedModel& m : models) {
    if (!m.facts) {
      broken += fmt::format("{}: {}\n", printable(m.name, 96), printable(m.error->message, 300));
      continue;
    }
    table.add({printable(m.name, 96), printable(m.facts->architecture, 96), format_count(m.facts->n_parameters),
               m.facts->file_type, format_bytes(m.file_bytes), fmt::format("{}", m.facts->n_context_train)});
  }
  return table.text("") + (broken.empty() ? "" : "\nnot usable:\n" + broken);
}

}  // namespace

Result<void> models(const ModelsCommand& options) {
  const std::string directory = models_directory();
  ModelListOptions where{.folders = {}, .files = {}, .cache_file = model_cache_file()};
  if (!directory.empty()) where.folders.push_back(directory);
  if (directory.empty()) say(kNoModelsDirectory);
  if (auto bundled = find_bundled_model(); bundled.ok()) where.files.push_back(*bundled);
  const std::vector<ListedModel> found = list_models(where);
  return print(options.json ? json_report(directory, found) : text_report(found));
}

}  // namespace rocmforge::apps
