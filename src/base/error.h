#pragma once
// The error vocabulary. An error is a value: a code for programs and a message for people.
//
// A message names the room, the object and the fact, in this order:
//   "gguf: key 'general.alignment' at byte 1234: alignment 13 is not a power of two"
// The context is added where it is known (see Error::in), not guessed where the fault was found.

#include <cstdint>
#include <string>
#include <string_view>

namespace rocmforge {

enum class ErrorCode : uint16_t {
  // Any room
  invalid_argument,  // a caller's value is outside what is documented
  out_of_range,      // a number does not fit where it must go
  out_of_memory,     // needed, available and what to change are in the message
  unsupported,       // valid, but deliberately not implemented
  limit_exceeded,    // a stated limit (size, depth, count, time) was reached
  cancelled,
  internal,   // an unexpected exception: our bug
  no_thread,  // the system starts no more threads: a limit of the process, its user or its container

  // base: files and the operating system
  file_not_found,
  file_not_regular,  // a directory, pipe, device or socket where a file is needed
  file_empty,
  file_access,  // permission
  file_read,    // the operating system reported an I/O error
  file_write,
  file_exists,     // a file stands where a new one was to be written
  file_truncated,  // the file ended before the expected bytes
  file_changed,    // the path now names a different file than the one that was opened

  // base: JSON
  json_syntax,
  json_depth,
  json_type,  // a value of another type than the reader asked for

  // gguf: container
  gguf_bad_magic,
  gguf_big_endian,
  gguf_bad_version,
  gguf_truncated,  // the header ends before the counts in it are reached
  gguf_too_many_keys,
  gguf_too_many_tensors,
  gguf_bad_key,  // empty, too long, not UTF-8, embedded NUL
  gguf_duplicate_key,
  gguf_bad_value_type,
  gguf_nested_array,
  gguf_string_too_long,
  gguf_array_too_long,
  gguf_metadata_too_large,
  gguf_bad_bool,
  gguf_bad_alignment,
  gguf_bad_tensor_name,
  gguf_duplicate_tensor,
  gguf_bad_dimension_count,
  gguf_bad_dimension,    // zero, or a product that does not fit
  gguf_bad_tensor_type,  // an id that is unknown
  gguf_removed_tensor_type,
  gguf_ragged_row,  // the first dimension is not a whole number of blocks
  gguf_tensor_too_large,
  gguf_misaligned_tensor,
  gguf_tensor_out_of_file,
  gguf_tensor_overlap,
  gguf_key_missing,
  gguf_key_type,
  gguf_key_range,
  gguf_tensor_missing,
  gguf_split_count,
  gguf_split_number,
  gguf_split_missing,
  gguf_split_mismatch,  // shards that do not belong together
  gguf_write,

  // model
  model_unsupported,     // an architecture, or a feature of one, that this build does not run
  model_hyperparameter,  // a number that is missing, not finite, zero or out of bounds
  model_tensor_missing,
  model_tensor_shape,
  model_not_finite,  // a NaN or an infinity among the logits

  // tokenizer
  tokenizer_kind,        // an unknown tokenizer model
  tokenizer_vocabulary,  // tokens, scores, types or merges that contradict each other
  tokenizer_special,     // a special token id outside the vocabulary
  tokenizer_pattern,     // a pre-tokenizer pattern failed or hit its limit
  tokenizer_input,       // an id or text that cannot be converted

  // gpu
  device_unavailable,  // no such device, no driver, or one that is too old
  device_failed,       // the driver reported a failure

  // engine
  queue_full,       // the queue's limit on waiting requests is reached
  draining,         // no new requests: the engine is about to stop
  model_not_found,  // no model of that name

  // templates
  template_syntax,
  template_runtime,
  template_raised,  // the template called raise_exception
  template_limit,
};

// The code's own name, as written above: stable, for logs and scripts.
std::string_view error_name(ErrorCode code);

struct [[nodiscard]] Error {
  ErrorCode code;
  std::string message;

  // The same error seen from further out: "context: message".
  Error in(std::string_view context) && {
    message.insert(0, std::string(context) + ": ");
    return std::move(*this);
  }
};

}  // namespace rocmforge
