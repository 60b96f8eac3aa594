// How a key or a value is written to a cache of bytes: see attention_task.h. Included once for each instruction set, by
// attention_impl.h.
#ifndef QUIRE_ATTENTION_QUANTIZE_H
#define QUIRE_ATTENTION_QUANTIZE_H

#include <math.h>

#include "attention_numbers.h"

typedef uint8_t vb __attribute__((vector_size(Q_WIDTH)));

// bytes_of rounds numbers of at most 127, or 448 of 8-bit floats, to bytes.
Q_INLINE vu bytes_of(vf x, const int dtype) {
	const vf magic = vset(12582912.0f); // 1.5 * 2^23: adding it rounds to an integer
	if (dtype == Q_S8) return (vu)((vi)(x + magic) - (vi)magic);
	vi negative = (vi)(x < vset(0));
	vf size = (vf)((vu)x & 0x7fffffff);
	vu bits = (vu)size, normal = ((bits + 0x7ffff + ((bits >> 20) & 1)) >> 20) - (120 << 3);
	vu most = (vu){} + 0x7e;
	vu subnormal = (vu)((vi)(size * vset(512) + magic) - (vi)magic);
	vf code = vselect((vi)(size < vset(0x1p-6f)), (vf)subnormal, vselect((vi)(normal > most), (vf)most, (vf)normal));
	return (vu)code | ((vu)(negative & (vi)((vi)code > 0)) & 0x80); // 0 has no sign
}

Q_INLINE void quantize_as(const struct q_quantize *v, const int type, const int dtype) {
	vf top = {}, wrong = {};
	float last[Q_WIDTH];
	int64_t dim = v->dim;
	for (int64_t d = 0; d < dim; d += Q_WIDTH) {
		vf x;
		if (d + Q_WIDTH <= dim) {
			x = vread(v->from, type, d);
		} else {
			for (int i = 0; i < Q_WIDTH; i++) last[i] = d + i < dim ? element(v->from, type, d + i) : 0;
			x = vload(last);
		}
		top = vmax((vf)((vu)x & 0x7fffffff), top);
		wrong = (vf)((vu)wrong | (vu)(vi)(x != x));
	}
	float scale = 0;
	int nan = 0;
	for (int i = 0; i < Q_WIDTH; i++) {
		scale = top[i] > scale ? top[i] : scale;
		nan |= ((vi)wrong)[i] != 0;
	}
	scale = scale < Q_ATTENTION_TINY ? 0 : scale * (1 / (dtype == Q_S8 ? 127.0f : 448.0f));
	if (nan) scale = NAN;
	memcpy(v->to + dim, &scale, sizeof scale);
	if (!(scale > 0 && scale < INFINITY)) {
		memset(v->to, 0, dim);
		return;
	}
	const vf inverse = vset(1 / scale);
	for (int64_t d = 0; d < dim; d += Q_WIDTH) {
		vf x;
		int64_t n = d + Q_WIDTH <= dim ? Q_WIDTH : dim - d;
		if (n == Q_WIDTH) x = vread(v->from, type, d);
		else x = vload(last);
		vb bytes = __builtin_convertvector(bytes_of(x * inverse, dtype), vb);
		memcpy(v->to + d, &bytes, n);
	}
}

void Q_NAME(q_quantize)(const struct q_quantize *v) {
	const int dtype = v->cache_type;
	switch (v->type) {
	case Q_BF16: dtype == Q_S8 ? quantize_as(v, Q_BF16, Q_S8) : quantize_as(v, Q_BF16, Q_U8); break;
	case Q_F16: dtype == Q_S8 ? quantize_as(v, Q_F16, Q_S8) : quantize_as(v, Q_F16, Q_U8); break;
	default: dtype == Q_S8 ? quantize_as(v, Q_F32, Q_S8) : quantize_as(v, Q_F32, Q_U8); break;
	}
}

#endif
