#include "model/spec.h"
