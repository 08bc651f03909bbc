#include "gguf/reader.h"
