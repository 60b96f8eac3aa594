#define Q_SIMD Q_AVX2
#define Q_NAME(name) name##_avx2
#include "attention_impl.h"
