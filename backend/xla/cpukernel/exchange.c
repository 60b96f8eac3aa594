#include "exchange.h"

#include <stdlib.h>

#include "_cgo_export.h"

q_error *quire_exchange(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	int64_t channel, devices;
	if ((e = q_count(f, 1, 1)) || (e = q_int(f, "channel", &channel)) || (e = q_int(f, "devices", &devices))) return e;
	const q_array *x = q_arg(f, 0), *all = q_result(f, 0);
	size_t width = q_size(x->dtype);
	if (!width || all->dtype != x->dtype || all->rank != x->rank + 1)
		return q_fail(f, "an exchange of type %d is not possible", x->dtype);
	for (int64_t i = 0; i < x->rank; i++) {
		if (all->dims[i + 1] != x->dims[i])
			return q_fail(f, "dimension %lld of an exchange is not the operand's", (long long)i + 1);
	}
	int device = 0;
	if (devices > 1 && (e = q_device(f, &device))) return e;
	char *failure = quireExchange(device, channel, x->data, q_elements(x) * width, all->data, all->dims[0]);
	if (!failure) return NULL;
	e = q_fail(f, "%s", failure);
	free(failure);
	return e;
}
