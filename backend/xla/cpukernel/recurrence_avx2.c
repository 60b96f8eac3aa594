#include "cpu.h"

#if defined(Q_X86)
#pragma GCC target("avx2,fma,f16c")
#define Q_V16 256
#include "recurrence_rows.h"

#include "delta_rows.h"
#include "mamba_rows.h"

const q_recurrences q_recurrences_avx2 = {conv, delta, mamba, gate, gated_norm};
#endif
