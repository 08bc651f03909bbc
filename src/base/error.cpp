#include "base/error.h"

#include "base/check.h"

namespace rocmforge {

std::string_view error_name(ErrorCode code) {
  switch (code) {
#define RF_NAME(x)   \
  case ErrorCode::x: \
    return #x
    RF_NAME(invalid_argument);
    RF_NAME(out_of_range);
    RF_NAME(out_of_memory);
    RF_NAME(unsupported);
    RF_NAME(limit_exceeded);
    RF_NAME(cancelled);
    RF_NAME(internal);
    RF_NAME(no_thread);
    RF_NAME(file_not_found);
    RF_NAME(file_not_regular);
    RF_NAME(file_empty);
    RF_NAME(file_access);
    RF_NAME(file_read);
    RF_NAME(file_write);
    RF_NAME(file_exists);
    RF_NAME(file_truncated);
    RF_NAME(file_changed);
    RF_NAME(json_syntax);
    RF_NAME(json_depth);
    RF_NAME(json_type);
    RF_NAME(gguf_bad_magic);
    RF_NAME(gguf_big_endian);
    RF_NAME(gguf_bad_version);
    RF_NAME(gguf_truncated);
    RF_NAME(gguf_too_many_keys);
    RF_NAME(gguf_too_many_tensors);
    RF_NAME(gguf_bad_key);
    RF_NAME(gguf_duplicate_key);
    RF_NAME(gguf_bad_value_type);
    RF_NAME(gguf_nested_array);
    RF_NAME(gguf_string_too_long);
    RF_NAME(gguf_array_too_long);
    RF_NAME(gguf_metadata_too_large);
    RF_NAME(gguf_bad_bool);
    RF_NAME(gguf_bad_alignment);
    RF_NAME(gguf_bad_tensor_name);
    RF_NAME(gguf_duplicate_tensor);
    RF_NAME(gguf_bad_dimension_count);
    RF_NAME(gguf_bad_dimension);
    RF_NAME(gguf_bad_tensor_type);
    RF_NAME(gguf_removed_tensor_type);
    RF_NAME(gguf_ragged_row);
    RF_NAME(gguf_tensor_too_large);
    RF_NAME(gguf_misaligned_tensor);
    RF_NAME(gguf_tensor_out_of_file);
    RF_NAME(gguf_tensor_overlap);
    RF_NAME(gguf_key_missing);
    RF_NAME(gguf_key_type);
    RF_NAME(gguf_key_range);
    RF_NAME(gguf_tensor_missing);
    RF_NAME(gguf_split_count);
    RF_NAME(gguf_split_number);
    RF_NAME(gguf_split_missing);
    RF_NAME(gguf_split_mismatch);
    RF_NAME(gguf_write);
    RF_NAME(model_unsupported);
    RF_NAME(model_hyperparameter);
    RF_NAME(model_tensor_missing);
    RF_NAME(model_tensor_shape);
    RF_NAME(model_not_finite);
    RF_NAME(tokenizer_kind);
    RF_NAME(tokenizer_vocabulary);
    RF_NAME(tokenizer_special);
    RF_NAME(tokenizer_pattern);
    RF_NAME(tokenizer_input);
    RF_NAME(device_unavailable);
    RF_NAME(device_failed);
    RF_NAME(queue_full);
    RF_NAME(draining);
    RF_NAME(model_not_found);
    RF_NAME(template_syntax);
    RF_NAME(template_runtime);
    RF_NAME(template_raised);
    RF_NAME(template_limit);
#undef RF_NAME
  }
  RF_UNREACHABLE("an ErrorCode outside its enum");
}

}  // namespace rocmforge
