#include "plan/backend.h"
