/* Runs kernels: one call, a list of calls, or one kernel by many threads.
 *
 * A kernel takes only pointers and ints, so it is called with all arguments widened to 64 bits; the
 * System V and AAPCS64 conventions let a caller pass more of them than the callee reads. Argument
 * arrays are padded with zeros to `tg_room(n)` entries.
 *
 * Threads: a launch of n ids is published in one 64-bit ticket (ids, next id). Every worker and the
 * caller take ids from it until none is left, so that a worker which wakes late costs nothing. Job
 * fields are written before the ticket, and stay until every id is done. Workers spin for a while
 * after the last launch, then sleep; they are pinned, the caller never is (threads made later would
 * inherit its mask). Signals go to the caller. A forked child starts without workers.
 */
#ifndef TG_POOL_H
#define TG_POOL_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#define TG_MAX_ARGS 512
#define TG_SPINS 20000
#define TG_JOIN_SPINS 100000

typedef struct {
  void *fn;
  int64_t *args;
  int32_t nargs;     /* with the thread id */
  int32_t threads;   /* ids 0..threads-1 */
  int32_t id_slot;   /* which argument is the thread id, -1: none */
  int32_t reserved;
} tg_task;

/* *** calling *** */

#define TG_T4 int64_t, int64_t, int64_t, int64_t
#define TG_T8 TG_T4, TG_T4
#define TG_T16 TG_T8, TG_T8
#define TG_T32 TG_T16, TG_T16
#define TG_T64 TG_T32, TG_T32
#define TG_T128 TG_T64, TG_T64
#define TG_T256 TG_T128, TG_T128
#define TG_T512 TG_T256, TG_T256
#define TG_A4(i) a[i], a[i + 1], a[i + 2], a[i + 3]
#define TG_A8(i) TG_A4(i), TG_A4(i + 4)
#define TG_A16(i) TG_A8(i), TG_A8(i + 8)
#define TG_A32(i) TG_A16(i), TG_A16(i + 16)
#define TG_A64(i) TG_A32(i), TG_A32(i + 32)
#define TG_A128(i) TG_A64(i), TG_A64(i + 64)
#define TG_A256(i) TG_A128(i), TG_A128(i + 128)
#define TG_A512(i) TG_A256(i), TG_A256(i + 256)
#define TG_CALL(n) if (count <= n) { ((void (*)(TG_T##n))fn)(TG_A##n(0)); return; }

static inline int tg_room(int count) {
  int room = 4;
  while (room < count) room *= 2;
  return room;
}

static void tg_call(void *fn, const int64_t *a, int count) {
  TG_CALL(4) TG_CALL(8) TG_CALL(16) TG_CALL(32) TG_CALL(64) TG_CALL(128) TG_CALL(256) TG_CALL(512)
}

static inline void tg_call_id(const tg_task *t, int id) {
  if (t->id_slot < 0) { tg_call(t->fn, t->args, t->nargs); return; }
  int64_t own[TG_MAX_ARGS];
  memcpy(own, t->args, sizeof(int64_t) * (size_t)tg_room(t->nargs));
  own[t->id_slot] = id;
  tg_call(t->fn, own, t->nargs);
}

/* A copy as a kernel, so that a list may hold transfers. */
static void tg_copy(int64_t target, int64_t source, int64_t size, int64_t unused) {
  (void)unused;
  memmove((void *)(intptr_t)target, (const void *)(intptr_t)source, (size_t)size);
}

/* *** the pool *** */

static struct {
  _Alignas(64) _Atomic uint64_t ticket;  /* ids << 32 | next id */
  _Alignas(64) _Atomic int32_t left;     /* ids not done */
  _Alignas(64) _Atomic int32_t sleepers;
  _Atomic int32_t wakes;
  _Alignas(64) tg_task job;
  int workers, wanted;
  pthread_mutex_t owner;
#ifndef __linux__
  pthread_mutex_t bed;
  pthread_cond_t alarm;
#endif
} tg_pool = {.owner = PTHREAD_MUTEX_INITIALIZER,
#ifndef __linux__
             .bed = PTHREAD_MUTEX_INITIALIZER, .alarm = PTHREAD_COND_INITIALIZER,
#endif
             .workers = 0, .wanted = 0};

static inline void tg_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static inline int tg_has_ids(uint64_t ticket) { return (uint32_t)ticket < (uint32_t)(ticket >> 32); }

/* Takes ids and runs them until none is left. */
static void tg_work(void) {
  while (tg_has_ids(atomic_load_explicit(&tg_pool.ticket, memory_order_acquire))) {
    uint64_t mine = atomic_fetch_add_explicit(&tg_pool.ticket, 1, memory_order_acq_rel);
    if (!tg_has_ids(mine)) return;
    tg_call_id(&tg_pool.job, (int)(uint32_t)mine);
    atomic_fetch_sub_explicit(&tg_pool.left, 1, memory_order_release);
  }
}

static void tg_sleep(void) {
  int32_t seen = atomic_load(&tg_pool.wakes);
  atomic_fetch_add(&tg_pool.sleepers, 1);
  if (!tg_has_ids(atomic_load(&tg_pool.ticket))) {
#ifdef __linux__
    syscall(SYS_futex, &tg_pool.wakes, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
#else
    pthread_mutex_lock(&tg_pool.bed);
    while (atomic_load(&tg_pool.wakes) == seen) pthread_cond_wait(&tg_pool.alarm, &tg_pool.bed);
    pthread_mutex_unlock(&tg_pool.bed);
#endif
  }
  atomic_fetch_sub(&tg_pool.sleepers, 1);
}

static void tg_wake(int count) {
#ifdef __linux__
  atomic_fetch_add(&tg_pool.wakes, 1);
  syscall(SYS_futex, &tg_pool.wakes, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
#else
  (void)count;
  pthread_mutex_lock(&tg_pool.bed);
  atomic_fetch_add(&tg_pool.wakes, 1);
  pthread_cond_broadcast(&tg_pool.alarm);
  pthread_mutex_unlock(&tg_pool.bed);
#endif
}

static void *tg_worker(void *unused) {
  (void)unused;
  for (int idle = 0;;) {
    if (tg_has_ids(atomic_load_explicit(&tg_pool.ticket, memory_order_relaxed))) {
      tg_work();
      idle = 0;
    } else if (++idle < TG_SPINS) {
      tg_pause();
    } else {
      tg_sleep();
      idle = 0;
    }
  }
  return NULL;
}

/* Pins to the (place+1)-th of the CPUs this process may use; the caller tends to be on the first. */
static void tg_pin(pthread_t thread, int place) {
#ifdef __linux__
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed)) return;
  int count = CPU_COUNT(&allowed);
  if (count < 2) return;
  int skip = (place + 1) % count;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &allowed) || skip--) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(thread, sizeof one, &one);
    return;
  }
#else
  (void)thread; (void)place;
#endif
}

static void tg_forget_workers(void) {
  tg_pool.workers = 0;
  atomic_store(&tg_pool.ticket, 0);
  atomic_store(&tg_pool.left, 0);
  atomic_store(&tg_pool.sleepers, 0);
  pthread_mutex_init(&tg_pool.owner, NULL);
}

/* Makes workers up to `count`; called with `owner` held. */
static void tg_grow(int count) {
  static int registered = 0;
  if (!registered) {
    registered = 1;
    pthread_atfork(NULL, NULL, tg_forget_workers);
  }
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (tg_pool.workers < count) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, tg_worker, NULL)) break;
    tg_pin(thread, tg_pool.workers++);
    pthread_detach(thread);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void tg_run_alone(const tg_task *t) {
  for (int id = 0; id < t->threads; id++) tg_call_id(t, id);
}

/* Runs one task, by at most `limit` threads. */
static void tg_run(const tg_task *t, int limit) {
  int helpers = (t->threads < limit ? t->threads : limit) - 1;
  if (helpers < 1) { tg_run_alone(t); return; }
  /* another thread of this process is using the pool: this one does its ids itself */
  if (pthread_mutex_trylock(&tg_pool.owner)) { tg_run_alone(t); return; }
  if (tg_pool.workers < helpers) tg_grow(helpers);
  tg_pool.job = *t;
  atomic_store_explicit(&tg_pool.left, t->threads, memory_order_relaxed);
  atomic_store(&tg_pool.ticket, (uint64_t)(uint32_t)t->threads << 32);
  if (atomic_load(&tg_pool.sleepers) > 0) tg_wake(helpers);
  tg_work();
  for (int spins = 0; atomic_load_explicit(&tg_pool.left, memory_order_acquire) > 0;) {
    if (++spins < TG_JOIN_SPINS) tg_pause(); else sched_yield();
  }
  pthread_mutex_unlock(&tg_pool.owner);
}

static void tg_run_list(const tg_task *tasks, int count, int limit) {
  for (int i = 0; i < count; i++) tg_run(&tasks[i], limit);
}

static double tg_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int tg_workers(void) { return tg_pool.workers; }

static void tg_flush_code(void *start, size_t size) {
  __builtin___clear_cache((char *)start, (char *)start + size);
}
#endif
