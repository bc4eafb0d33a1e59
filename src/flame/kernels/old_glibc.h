/* Calls the threads' functions by the names that they had before glibc 2.34, which newer ones keep: a library linked on a
 * new system then runs on older ones. Only for wheels (OLDEST_GLIBC), see `hatch_build.py`. */
#ifndef FLAME_OLD_GLIBC_H
#define FLAME_OLD_GLIBC_H
#if defined(OLDEST_GLIBC) && defined(__GLIBC__)
#if defined(__x86_64__)
__asm__(".symver pthread_create, pthread_create@GLIBC_2.2.5");
__asm__(".symver pthread_once, pthread_once@GLIBC_2.2.5");
__asm__(".symver pthread_mutex_trylock, pthread_mutex_trylock@GLIBC_2.2.5");
__asm__(".symver pthread_attr_setstacksize, pthread_attr_setstacksize@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver pthread_create, pthread_create@GLIBC_2.17");
__asm__(".symver pthread_once, pthread_once@GLIBC_2.17");
__asm__(".symver pthread_mutex_trylock, pthread_mutex_trylock@GLIBC_2.17");
__asm__(".symver pthread_attr_setstacksize, pthread_attr_setstacksize@GLIBC_2.17");
#endif
#endif
#endif
