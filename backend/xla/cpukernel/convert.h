// Conversions between float32 and the 16-bit floats, by bits. They round to nearest even as XLA's do; a NaN stays one.
#ifndef QUIRE_CONVERT_H
#define QUIRE_CONVERT_H

#include <stdint.h>
#include <string.h>

static inline uint32_t q_bits(float x) {
	uint32_t b;
	memcpy(&b, &x, sizeof b);
	return b;
}

static inline float q_from_bits(uint32_t b) {
	float x;
	memcpy(&x, &b, sizeof x);
	return x;
}

static inline float q_from_bf16(uint16_t x) { return q_from_bits((uint32_t)x << 16); }

static inline uint16_t q_to_bf16(float x) {
	uint32_t b = q_bits(x);
	if ((b & 0x7fffffff) > 0x7f800000) return (b >> 16) | 0x40;
	return (b + 0x7fff + ((b >> 16) & 1)) >> 16;
}

static inline float q_from_f16(uint16_t x) {
	uint32_t sign = (uint32_t)(x & 0x8000) << 16, rest = x & 0x7fff;
	if (rest >= 0x7c00) return q_from_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
	// Subnormal numbers are made from integers, because the processor may be set to treat subnormal float32 as zero.
	if (rest < 0x400) return q_from_bits(sign | q_bits(rest * 0x1p-24f));
	return q_from_bits(sign | ((rest << 13) + (112 << 23)));
}

static inline uint16_t q_to_f16(float x) {
	uint32_t b = q_bits(x), sign = (b >> 16) & 0x8000, rest = b & 0x7fffffff;
	if (rest > 0x7f800000) return sign | 0x7e00 | ((rest >> 13) & 0x3ff);
	if (rest >= 0x477ff000) return sign | 0x7c00;                                         // rounds to 65536 or more
	if (rest < 0x38800000) return sign | (q_bits(q_from_bits(rest) + 0.5f) - 0x3f000000); // subnormal: the sum rounds
	return sign | ((rest + 0xfff + ((rest >> 13) & 1) - 0x38000000) >> 13);
}

// q_from_e4m3 widens an 8-bit float: a sign, 4 bits of exponent, 3 of fraction. NaNs are not preserved.
static inline float q_from_e4m3(uint8_t x) {
	const uint32_t size = x & 0x7f;
	const float y = q_from_bits((size << 20) + (120u << 23));
	return q_from_bits(q_bits(size < 8 ? 2 * y - 0x1p-6f : y) | (uint32_t)(x & 0x80) << 24);
}

#endif
