// Sixteen numbers of an element type at a time, as float32: see v16.h. Fewer than sixteen go through a buffer.
#ifndef QUIRE_V16_TYPES_H
#define QUIRE_V16_TYPES_H

#include "ffi.h"
#include "v16.h"

static inline v16 load(const void *p, int dtype, int64_t i) {
	if (dtype == Q_F32) return v16_load((const float *)p + i);
	return dtype == Q_BF16 ? v16_load_bf16((const uint16_t *)p + i) : v16_load_f16((const uint16_t *)p + i);
}

static inline void store(void *p, int dtype, int64_t i, v16 x) {
	if (dtype == Q_F32) v16_store((float *)p + i, x);
	else if (dtype == Q_BF16) v16_store_bf16((uint16_t *)p + i, x);
	else v16_store_f16((uint16_t *)p + i, x);
}

static inline size_t size_of(int dtype) { return dtype == Q_F32 ? 4 : 2; }

// load_part loads the first n < 16 numbers from p[i] on, followed by zeros.
static inline v16 load_part(const void *p, int dtype, int64_t i, int64_t n) {
	char part[64] = {0};
	memcpy(part, (const char *)p + i * size_of(dtype), n * size_of(dtype));
	return load(part, dtype, 0);
}

static inline void store_part(void *p, int dtype, int64_t i, int64_t n, v16 x) {
	char part[64];
	store(part, dtype, 0, x);
	memcpy((char *)p + i * size_of(dtype), part, n * size_of(dtype));
}

// rounded rounds x to the element type.
static inline v16 rounded(v16 x, int dtype) {
	uint16_t half[16];
	if (dtype == Q_F32) return x;
	store(half, dtype, 0, x);
	return load(half, dtype, 0);
}

// part loads 16 numbers from p[i] on, or those before width, followed by zeros.
static inline v16 part(const void *p, int dtype, int64_t i, int64_t width) {
	return i + 16 <= width ? load(p, dtype, i) : load_part(p, dtype, i, width - i);
}

// put stores 16 numbers from p[i] on, or those before width.
static inline void put(void *p, int dtype, int64_t i, int64_t width, v16 x) {
	if (i + 16 <= width) store(p, dtype, i, x);
	else store_part(p, dtype, i, width - i, x);
}

#endif
