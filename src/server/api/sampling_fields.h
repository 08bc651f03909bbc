#pragma once
// The members of a request that say how tokens are chosen, by the names of OpenAI, llama.cpp, vLLM and Ollama.

#include "engine/sampler.h"
#include "server/api/fields.h"
#include "server/api/served_model.h"

namespace rocmforge::server {

// Changes what the request names; a seed that it does not name is random.
void read_sampling(Fields& fields, const ServedModel& model, SamplingOptions& out);

}  // namespace rocmforge::server
