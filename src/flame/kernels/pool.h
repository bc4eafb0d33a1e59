/* Shares the rows of a kernel's output among threads; see pool.c. */
#ifndef FLAME_POOL_H
#define FLAME_POOL_H
#include <stddef.h>
#include <stdint.h>

/* Does rows [first, last) of a job. */
typedef void rows_work(const void *job, ptrdiff_t first, ptrdiff_t last);

/* Does rows [0, rows) of a job, `at_once` at a time, on up to `threads` threads, the caller's among them. */
void flame_share_rows(int32_t threads, ptrdiff_t rows, ptrdiff_t at_once, rows_work *work, const void *job);
#endif
