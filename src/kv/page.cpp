#include "kv/page.h"
