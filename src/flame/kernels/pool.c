/* The threads of the kernels: started when first needed, asleep between calls; compiled once.
 *
 * Why not OpenMP: its threads spin at barriers, so that two of them are slower than one where other programs want the
 * cores, and after a fork the child waits for threads that it does not have. Here a thread looks for work for a moment
 * and then sleeps, a caller waits only for threads that have begun, and a forked child starts threads of its own.
 *
 * The pool serves one caller at a time. One that finds it taken does its rows itself: the cores are busy anyway. */
#ifdef BASELINE
#include "pool.h"

#include <pthread.h>
#include <stdatomic.h>

#include "limits.h"
#include "old_glibc.h"

enum { LOOKS = 4000, STACK_BYTES = 8 << 20 };

static pthread_mutex_t caller = PTHREAD_MUTEX_INITIALIZER; /* held by whom the pool serves */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;   /* guards what follows */
static pthread_cond_t called = PTHREAD_COND_INITIALIZER, finished = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int started, sleeping, seats, waiting;
static atomic_int at_work;
static atomic_uint calls;
static struct {
    rows_work *work;
    const void *job;
    ptrdiff_t rows, at_once;
    atomic_ptrdiff_t next;
} now;

static inline void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void take_rows(void) {
    for (;;) {
        ptrdiff_t first = atomic_fetch_add_explicit(&now.next, now.at_once, memory_order_relaxed);
        if (first >= now.rows) return;
        ptrdiff_t last = first + now.at_once;
        now.work(now.job, first, last < now.rows ? last : now.rows);
    }
}

static void *attend(void *unused) {
    unsigned seen = 0;
    (void)unused;
    for (;;) {
        for (int look = 0; look < LOOKS && atomic_load(&calls) == seen; look++) pause_briefly();
        pthread_mutex_lock(&lock);
        while (atomic_load(&calls) == seen) {
            sleeping++;
            pthread_cond_wait(&called, &lock);
            sleeping--;
        }
        seen = atomic_load(&calls);
        int joins = seats > 0;
        if (joins) {
            seats--;
            atomic_fetch_add(&at_work, 1);
        }
        pthread_mutex_unlock(&lock);
        if (!joins) continue;
        take_rows();
        pthread_mutex_lock(&lock);
        if (atomic_fetch_sub(&at_work, 1) == 1 && waiting) pthread_cond_signal(&finished);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

/* A forked child has none of its parent's threads, and whatever they held is nobody's. */
static void begin_anew(void) {
    caller = lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    called = finished = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    started = sleeping = seats = waiting = 0;
    atomic_store(&at_work, 0);
    atomic_store(&calls, 0);
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, begin_anew); }

/* With the lock held; where the system gives no more threads, fewer share the work. */
static void start_threads(int wanted) {
    pthread_attr_t kind;
    pthread_t thread;
    if (started >= wanted || pthread_attr_init(&kind)) return;
    pthread_attr_setdetachstate(&kind, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&kind, STACK_BYTES);
    while (started < wanted && pthread_create(&thread, &kind, attend, NULL) == 0) started++;
    pthread_attr_destroy(&kind);
}

void flame_share_rows(int32_t threads, ptrdiff_t rows, ptrdiff_t at_once, rows_work *work, const void *job) {
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    if (threads < 2 || rows <= at_once || pthread_mutex_trylock(&caller)) {
        work(job, 0, rows);
        return;
    }
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    start_threads(threads - 1);
    now.work = work;
    now.job = job;
    now.rows = rows;
    now.at_once = at_once;
    atomic_store(&now.next, 0);
    seats = threads - 1;
    atomic_fetch_add(&calls, 1);
    if (sleeping) pthread_cond_broadcast(&called);
    pthread_mutex_unlock(&lock);
    take_rows();
    pthread_mutex_lock(&lock);
    seats = 0; /* who has not begun is not waited for */
    pthread_mutex_unlock(&lock);
    for (int look = 0; look < LOOKS && atomic_load(&at_work); look++) pause_briefly();
    pthread_mutex_lock(&lock);
    waiting = 1;
    while (atomic_load(&at_work)) pthread_cond_wait(&finished, &lock);
    waiting = 0;
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&caller);
}
#endif
