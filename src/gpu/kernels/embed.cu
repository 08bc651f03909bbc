// Looks rows of a table up and decodes them: a block a row, its threads take groups of 16 elements, or single floats.

#include "gpu/runtime.h"

#include "gpu/kernels/embed.h"
#include "gpu/packed/float_formats.h"
#include "gpu/packed/lists.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_DEVICE uint64_t table_row(const EmbedArgs& args) {
  return args.rows != nullptr ? args.rows[block_x()] : 0;
}
RF_DEVICE void put(const EmbedArgs& args, uint32_t i, float value) {
  float& out = args.out[static_cast<uint64_t>(block_x()) * args.width + i];
  out = args.scale * value + (args.adds ? out : 0.0f);
}

template <class Block>
RF_DEVICE void embed_groups(const EmbedArgs& args) {
  const uint32_t n_groups = args.width / 16;
  for (uint32_t g = thread_index(); g < n_groups; g += kEmbedThreads) {
    float values[16];
    decode16<Block>(values, args.table, table_row(args) * n_groups + g);
    for (uint32_t i = 0; i < 16; i++) put(args, 16 * g + i, values[i]);
  }
}
template <class Block>
RF_DEVICE void embed_floats(const EmbedArgs& args) {
  const auto* from = reinterpret_cast<const Block*>(args.table.at[0]) + table_row(args) * args.width;
  for (uint32_t i = thread_index(); i < args.width; i += kEmbedThreads) put(args, i, value_of(from[i]));
}

#define RF_EMBED_GROUPS(name, Block)                  \
  RF_KERNEL(embed_##name, EmbedArgs, kEmbedThreads) { \
    embed_groups<Block>(args);                        \
  }
#define RF_EMBED_FLOATS(name, Block)                  \
  RF_KERNEL(embed_##name, EmbedArgs, kEmbedThreads) { \
    embed_floats<Block>(args);                        \
  }
RF_INTEGER_FORMATS(RF_EMBED_GROUPS)
RF_FLOAT_FORMATS(RF_EMBED_FLOATS)

}  // namespace rocmforge::gpu::RF_KERNELS
