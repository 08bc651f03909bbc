#pragma once
// Rules of single families that a row of the table (model/families.cpp) cannot express: functions of keys and sizes.

#include "model/keys.h"
#include "model/spec.h"

namespace rocmforge {

Result<void> finish_afmoe(const Keys& keys, ModelSpec& spec);
Result<void> finish_apertus(const Keys& keys, ModelSpec& spec);
Result<void> finish_arctic(const Keys& keys, ModelSpec& spec);
Result<void> finish_baichuan(const Keys& keys, ModelSpec& spec);
Result<void> finish_bailingmoe(const Keys& keys, ModelSpec& spec);
Result<void> finish_cohere2moe(const Keys& keys, ModelSpec& spec);
Result<void> finish_deci(const Keys& keys, ModelSpec& spec);
Result<void> finish_ernie4_5_moe(const Keys& keys, ModelSpec& spec);
Result<void> finish_exaone4(const Keys& keys, ModelSpec& spec);
Result<void> finish_gemma2(const Keys& keys, ModelSpec& spec);
Result<void> finish_gemma3(const Keys& keys, ModelSpec& spec);
Result<void> finish_gemma3n(const Keys& keys, ModelSpec& spec);
Result<void> finish_gemma4(const Keys& keys, ModelSpec& spec);
Result<void> finish_gptneox(const Keys& keys, ModelSpec& spec);
Result<void> finish_grok(const Keys& keys, ModelSpec& spec);
Result<void> finish_hunyuan(const Keys& keys, ModelSpec& spec);
Result<void> finish_hy_v3(const Keys& keys, ModelSpec& spec);
Result<void> finish_jais(const Keys& keys, ModelSpec& spec);
Result<void> finish_llama4(const Keys& keys, ModelSpec& spec);
Result<void> finish_mimo2(const Keys& keys, ModelSpec& spec);
Result<void> finish_minicpm(const Keys& keys, ModelSpec& spec);
Result<void> finish_mistral3(const Keys& keys, ModelSpec& spec);
Result<void> finish_mpt(const Keys& keys, ModelSpec& spec);
Result<void> finish_qwen(const Keys& keys, ModelSpec& spec);
Result<void> finish_smallthinker(const Keys& keys, ModelSpec& spec);
Result<void> finish_step35(const Keys& keys, ModelSpec& spec);

// encoder_rules.cpp
Result<void> finish_gemma_embedding(const Keys& keys, ModelSpec& spec);
Result<void> finish_llama_embed(const Keys& keys, ModelSpec& spec);
Result<void> finish_modern_bert(const Keys& keys, ModelSpec& spec);
Result<void> finish_nomic_bert_moe(const Keys& keys, ModelSpec& spec);
Result<void> finish_t5encoder(const Keys& keys, ModelSpec& spec);

}  // namespace rocmforge
