// Which instructions kernels may use. A kernel is compiled once for each level it has code for, and picks the highest that is not above
// q_level() when it is called; the levels contain each other.
#ifndef QUIRE_CPU_H
#define QUIRE_CPU_H

enum {
	Q_PLAIN,      // what the compiler takes for granted: SSE2 on x86-64
	Q_AVX2,       // AVX2, FMA, F16C
	Q_AVX512,     // AVX-512 F, BW, DQ, VL
	Q_AVX512BF16, // AVX-512 BF16 and VNNI
	Q_AMX,        // AMX tiles of BF16 and INT8, allowed to this process
	Q_LEVELS,
};

// q_processor_level asks the processor and the operating system.
int q_processor_level(void);

// q_level is the level in use, from q_set_level; Q_PLAIN before.
int q_level(void);
void q_set_level(int level);

#endif
