#pragma once
// Passes of a GPU as `plan --fused` shows them: what runs together, and by which kernels.

#include <span>
#include <string>

#include "gpu/pass_view.h"

namespace rocmforge {
class JsonWriter;
}

namespace rocmforge::apps {

// Stages that launch the same kernels are one entry, and so are passes; at most 100 columns, but for long names.
std::string to_text(const ExecutionPlan& plan, std::span<const gpu::PassView> passes);
void write_json(JsonWriter& w, std::span<const gpu::PassView> passes);

}  // namespace rocmforge::apps
