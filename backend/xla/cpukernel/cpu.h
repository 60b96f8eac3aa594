// Which instructions kernels may use. A kernel is compiled once for each level it has code for, and picks the highest
// one up to q_level() when it is called; the levels contain each other.
#ifndef QUIRE_CPU_H
#define QUIRE_CPU_H

// Q_X86 is defined if the code beyond plain is compiled. Compilers other than gcc have different ways to allow a file
// more instructions.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define Q_X86
#if __GNUC__ < 11
#error "gcc 11 or later is needed: earlier ones do not know AMX"
#endif
#endif

#define Q_PLAIN 0      // what the compiler assumes: SSE2 on x86-64
#define Q_AVX2 1       // AVX2, FMA, F16C
#define Q_AVX512 2     // AVX-512 F, BW, DQ, VL
#define Q_AVX512BF16 3 // AVX-512 BF16 and VNNI
#define Q_AMX 4        // AMX tiles of BF16 and INT8, allowed to this process

// q_processor_level asks the processor and the operating system.
int q_processor_level(void);

// q_level returns the level in use, from q_set_level; Q_PLAIN before.
int q_level(void);
void q_set_level(int level);

#endif
