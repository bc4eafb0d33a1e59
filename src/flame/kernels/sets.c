/* What this library was compiled from, and which of its instruction sets this processor has; compiled once. */
#include <stdint.h>

#ifdef BASELINE
#ifndef SOURCES
#define SOURCES "unknown"
#endif
/* Checksum of the sources, as `flame.kernels.library` finds it: an old library is never called with new signatures. */
__attribute__((visibility("default"))) const char *kernel_sources(void) { return SOURCES; }

/* The most capable instruction set that was compiled and that this processor has. */
__attribute__((visibility("default"))) int32_t instruction_set(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return 2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 1;
#endif
    return 0;
}
#endif
