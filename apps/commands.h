#pragma once
// The commands of `rocmforge`: one function each, with what the command line asked for as a plain struct.
// Results go to stdout, everything else to stderr. An error returned here becomes one line and exit code 1.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace rocmforge::apps {

struct InspectCommand {
  std::string model;  // a path or a name; empty: the bundled model
  bool json = false;
  bool tensors = false;  // list every tensor, not only the types
};
Result<void> inspect(const InspectCommand& options);

struct QuantizeCommand {
  std::string in;
  std::string out;
  std::string type;  // REQUIRES: the name of a mix
  bool pure = false;
  bool allow_requantize = false;
  bool overwrite = false;
  bool json = false;
  size_t n_threads = 0;  // 0: one per core
};
Result<void> quantize(const QuantizeCommand& options);

struct SynthCommand {
  std::string shape;  // REQUIRES: the name of a shape
  std::string type;   // REQUIRES: the name of a mix
  std::string out;
  bool pure = false;
  bool sparse = false;
  bool overwrite = false;
  bool json = false;
  uint64_t seed = 1;
};
Result<void> synth(const SynthCommand& options);

struct TokenizeCommand {
  std::string model;
  std::optional<std::string> text;  // neither text nor file: all of stdin, as one text
  std::optional<std::string> file;  // "-": stdin; one line of ids for each of its lines
  bool special = false;             // find control tokens in the text
  bool bos = false;                 // begin with BOS if the model wants one
  bool json = false;
};
Result<void> tokenize(const TokenizeCommand& options);

struct DetokenizeCommand {
  std::string model;
  std::vector<int32_t> ids;  // none: lines of ids from stdin
  bool special = false;      // show control tokens
};
Result<void> detokenize(const DetokenizeCommand& options);

struct RenderCommand {
  std::string model;
  std::optional<std::string> template_file;  // instead of the model's template
  std::string context_file;                  // a JSON object: the template's variables
  std::optional<std::string> now;            // what strftime_now sees, "2026-01-02 03:04:05"; none: the local time
};
Result<void> render(const RenderCommand& options);

struct ParseCommand {
  std::string model;
  std::string format;                     // instead of the model's
  std::optional<std::string> tools_file;  // a JSON array of tools
  std::string prompt_tail;
  std::vector<std::string> special;  // what of the text are control tokens
  uint32_t n_chunk = 0;              // the text comes in pieces of so many bytes; 0: in one
  bool stream = false;               // as a stream's client sees it: calls are told before they are complete
  bool list = false;
};
Result<void> parse_text(const ParseCommand& options);

struct ConstrainCommand {
  std::optional<std::string> json_schema, gbnf, choice, lark;  // files; "-": stdin
  std::optional<std::string> regex;                            // itself
  bool json_object = false;
  bool in_order = false;             // keys of a schema as it lists them
  std::optional<std::string> check;  // a file with a JSON string per line
  uint32_t n_samples = 0;
  uint64_t seed = 1;
};
Result<void> constrain(const ConstrainCommand& options);

struct ModelsCommand {
  bool json = false;
};
Result<void> models(const ModelsCommand& options);

struct DoctorCommand {
  bool json = false;
  bool gpu = false;  // runs the self-test of each GPU
};
// device_unavailable: a GPU is here and none can be used. device_failed: a device computes wrongly. The report has been
// written in either case.
Result<void> doctor(const DoctorCommand& options);

}  // namespace rocmforge::apps
