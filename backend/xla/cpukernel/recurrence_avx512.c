#include "cpu.h"

#if defined(Q_X86)
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")
#define Q_V16 512
#include "recurrence_rows.h"

#include "delta_rows.h"
#include "mamba_rows.h"

const q_recurrences q_recurrences_avx512 = {conv, delta, mamba, gate, gated_norm};
#endif
