#include "tensor/codec.h"
