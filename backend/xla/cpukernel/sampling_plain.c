#define Q_V16 0
#define Q_SAMPLE_ROW q_sample_row_plain
#define Q_LOGPROBS_ROW q_logprobs_row_plain
#define Q_ENTROPY_ROW q_entropy_row_plain
#include "sampling_row.h"
#include "logprobs_row.h"
#include "entropy_row.h"
