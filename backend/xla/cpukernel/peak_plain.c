#define LANES 4
#define SUFFIX(x) x##_plain
#define READ
#include "peak_loop.h"
