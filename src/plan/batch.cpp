#include "plan/batch.h"
