// Single numbers, with the same bits on every processor.
#ifndef QUIRE_SCALAR_H
#define QUIRE_SCALAR_H

#include "convert.h"
#include "ffi.h"

static inline float q_load(const void *data, int dtype, int64_t i) {
	switch (dtype) {
	case Q_BF16: return q_from_bf16(((const uint16_t *)data)[i]);
	case Q_F16: return q_from_f16(((const uint16_t *)data)[i]);
	default: return ((const float *)data)[i];
	}
}

static inline void q_store(void *data, int dtype, int64_t i, float x) {
	switch (dtype) {
	case Q_BF16: ((uint16_t *)data)[i] = q_to_bf16(x); break;
	case Q_F16: ((uint16_t *)data)[i] = q_to_f16(x); break;
	default: ((float *)data)[i] = x; break;
	}
}

// q_rounded rounds x to the nearest number of an element type.
static inline float q_rounded(int dtype, float x) {
	switch (dtype) {
	case Q_BF16: return q_from_bf16(q_to_bf16(x));
	case Q_F16: return q_from_f16(q_to_f16(x));
	default: return x;
	}
}

// q_exp is e^x within 2 units in the last place, 0 below -87 and e^88 above 88; a NaN stays NaN. The polynomial is
// Cephes' for expf.
static inline float q_exp(float x) {
	if (x != x) return x;
	if (x < -87) return 0;
	if (x > 88) x = 88;
	float n = x * 1.44269504088896341f;
	int32_t i = (int32_t)(n + (n < 0 ? -0.5f : 0.5f));
	x = x - i * 0.693359375f - i * -2.12194440e-4f;
	float y = 1.9875691500e-4f;
	y = y * x + 1.3981999507e-3f;
	y = y * x + 8.3334519073e-3f;
	y = y * x + 4.1665795894e-2f;
	y = y * x + 1.6666665459e-1f;
	y = y * x + 5.0000001201e-1f;
	y = y * x * x + x + 1;
	return y * q_from_bits((uint32_t)(i + 127) << 23);
}

// q_log1p is log(1 + x) for x from 0 to 1, within 1e-7: 2 artanh(x / (2 + x)), whose series ends after the 17th
// power.
static inline float q_log1p(float x) {
	float z = x / (2 + x), s = z * z, y = 1.0f / 17;
	for (int k = 15; k >= 1; k -= 2) y = y * s + 1.0f / k;
	return 2 * z * y;
}

static inline float q_sigmoid(float x) { return 1 / (1 + q_exp(-x)); }

#endif
