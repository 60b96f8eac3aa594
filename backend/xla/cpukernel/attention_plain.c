#define Q_SIMD Q_PLAIN
#define Q_NAME(name) name##_plain
#include "attention_impl.h"
