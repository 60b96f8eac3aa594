#define Q_V16 0
#include "recurrence_rows.h"

#include "delta_rows.h"
#include "mamba_rows.h"

const q_recurrences q_recurrences_plain = {conv, delta, mamba, gate, gated_norm};
