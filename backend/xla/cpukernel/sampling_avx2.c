#include "cpu.h"

#if defined(Q_X86)
#pragma GCC target("avx2,fma,f16c")
#define Q_V16 256
#define Q_SAMPLE_ROW q_sample_row_avx2
#define Q_LOGPROBS_ROW q_logprobs_row_avx2
#define Q_ENTROPY_ROW q_entropy_row_avx2
#include "sampling_row.h"
#include "logprobs_row.h"
#include "entropy_row.h"
#endif
