#include <fmt/core.h>

#include "model/binder.h"

namespace rocmforge {
namespace {

// More labels or wider layers than any classifier has.
constexpr uint64_t kMaxHeadWidth = 65'536;

// The rows of a matrix of the head, whose number only the file knows.
uint64_t n_outputs(Binder& bind, const std::string& name) {
  const uint64_t n = bind.n_rows(name);
  if (n <= kMaxHeadWidth) return n;
  bind.fail(ErrorCode::model_tensor_shape,
            fmt::format("model: tensor '{}': {} outputs, at most {}", name, n, kMaxHeadWidth));
  return n;
}

// Dense layers between pooling and the embedding, the first as wide as the file says.
void bind_embedding_layers(Binder& bind, const ModelSpec& spec, ModelTensors& model) {
  const uint64_t hidden = n_outputs(bind, "dense_2.weight"), width = n_outputs(bind, "dense_3.weight");
  if (hidden == 0 && width == 0) return;
  model.embedding_layers[0] = bind.require("dense_2.weight", {spec.width, hidden});
  model.embedding_layers[1] = bind.require("dense_3.weight", {hidden, width});
}

void bind_classifier(Binder& bind, const ModelSpec& spec, ModelTensors& model) {
  const uint64_t hidden = n_outputs(bind, "cls.weight"), n_scores = n_outputs(bind, "cls.output.weight");
  if (hidden == 0 && n_scores == 0) {
    if (spec.pooling == Pooling::rank) {
      bind.fail(ErrorCode::model_tensor_missing,
                fmt::format("model: no tensor 'cls.weight' or 'cls.output.weight': key '{}.pooling_type' says that the "
                            "file has a classifier",
                            spec.architecture));
    }
    return;
  }
  if (hidden > 0) {
    model.classifier = bind.require("cls.weight", {spec.width, hidden});
    model.classifier_bias = bind.find("cls.bias", {hidden});
    model.classifier_norm = bind.find("cls.norm.weight", {hidden});
  }
  if (n_scores > 0) {
    model.scores = bind.require("cls.output.weight", {hidden > 0 ? hidden : spec.width, n_scores});
    model.scores_bias = bind.find("cls.output.bias", {n_scores});
  }
}

}  // namespace

void bind_head(Binder& bind, const ModelSpec& spec, ModelTensors& model) {
  if (spec.has_embedding_layers) bind_embedding_layers(bind, spec, model);
  if (spec.attends_both_ways || spec.pooling == Pooling::rank) bind_classifier(bind, spec, model);
}

}  // namespace rocmforge
