#define _GNU_SOURCE
#include "cpu.h"

#include <stdatomic.h>

static _Atomic int level;

int q_level(void) { return atomic_load_explicit(&level, memory_order_relaxed); }

void q_set_level(int l) { atomic_store_explicit(&level, l, memory_order_relaxed); }

#if defined(Q_X86)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

// allowed_amx asks Linux for the tile registers, which a process must do once before it uses them.
static int allowed_amx(void) {
#if defined(__linux__)
	enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
	return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0;
#else
	return 0;
#endif
}

int q_processor_level(void) {
	enum { OSXSAVE = 1 << 27, AVX = 1 << 28, FMA = 1 << 12, F16C = 1 << 29 }; // leaf 1, ECX
	enum {
		SSE3 = 1 << 0,
		SSSE3 = 1 << 9,
		SSE41 = 1 << 19,
		SSE42 = 1 << 20,
		POPCNT = 1 << 23
	}; // the same: gcc assumes them with AVX
	enum { AVX2 = 1 << 5, AVX512F = 1 << 16, AVX512DQ = 1 << 17, AVX512BW = 1 << 30 }; // leaf 7, EBX
	const unsigned avx512vl = 1u << 31, avx512vnni = 1u << 11;                         // leaf 7, EBX and ECX
	const unsigned amx = 1u << 22 | 1u << 24 | 1u << 25;                               // leaf 7, EDX: BF16, TILE, INT8
	const unsigned avx512bf16 = 1u << 5;                                               // leaf 7, subleaf 1, EAX
	enum { STATE_AVX = 0x6, STATE_AVX512 = 0xe6, STATE_AMX = 0x60000 };                // XCR0
	unsigned a, b, c, d, eax, ebx, ecx, edx;
	const unsigned avx = OSXSAVE | AVX | FMA | F16C | SSE3 | SSSE3 | SSE41 | SSE42 | POPCNT;
	if (!__get_cpuid(1, &a, &b, &c, &d) || (c & avx) != avx) return Q_PLAIN;
	unsigned low, high;
	__asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	if ((low & STATE_AVX) != STATE_AVX || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !(ebx & AVX2))
		return Q_PLAIN;
	const unsigned avx512 = AVX512F | AVX512DQ | AVX512BW | avx512vl;
	if ((low & STATE_AVX512) != STATE_AVX512 || (ebx & avx512) != avx512) return Q_AVX2;
	if (!(ecx & avx512vnni) || eax < 1 || !__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a & avx512bf16))
		return Q_AVX512;
	if ((low & STATE_AMX) != STATE_AMX || (edx & amx) != amx || !allowed_amx()) return Q_AVX512BF16;
	return Q_AMX;
}
#else
int q_processor_level(void) { return Q_PLAIN; }
#endif
