#include "weights/weight_store.h"
