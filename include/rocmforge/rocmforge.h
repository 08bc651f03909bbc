#pragma once
// ROCmForge's C++ interface: one include for programs that run models.
//
//   Model             a file opened for use: header read, plan made, nothing loaded        engine/model.h
//   ExecutionPlan     lazy handles for every weight, and the steps of a pass               plan/execution_plan.h
//   LayerPlan         one layer's handles
//   WeightStore       get, prefetch, preload_layers, preload_all, is_layer_loaded,         weights/weight_store.h
//                     loading_stats, on_progress, evict, clear
//   LazyTensor        a weight's name, type, shape, place in the file and final address
//   Session           one sequence: tokens in, logits out                                  engine/session.h
//   Generator         prompts continued one after another, as text                         engine/generator.h
//   Conversation      turns of a chat on one generator                                     engine/conversation.h
//   Engine            many requests at once on one model, answered by events               engine/engine.h
//   ModelRegistry     models by name, loaded when asked for                                engine/registry.h
//   list_models       the models in folders, from their headers                            engine/model_list.h
//
// Every function that can fail returns a Result<T>: the value, or an Error with a code and a message.
// examples/lazy_plan.cpp is a complete program; the tests build and run it.

#include "base/result.h"
#include "chat/chat_vocabulary.h"
#include "engine/conversation.h"
#include "engine/engine.h"
#include "engine/generator.h"
#include "engine/model.h"
#include "engine/model_list.h"
#include "engine/registry.h"
#include "engine/request.h"
#include "engine/sampler.h"
#include "engine/session.h"
#include "plan/execution_plan.h"
#include "tokenizer/tokenizer.h"
#include "weights/weight_store.h"
