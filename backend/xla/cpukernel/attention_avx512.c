#define Q_SIMD Q_AVX512
#define Q_NAME(name) name##_avx512
#include "attention_impl.h"
