/*
 * A preloaded library that moves the wall clock of one process, at any time
 * while it runs. CLOCKSHIM_FILE names a file of 8 bytes, a native int64: the
 * nanoseconds to add. CLOCK_MONOTONIC stays, as it does when an operator or NTP
 * steps the clock of a machine.
 *
 * It allocates nothing and asks the kernel itself: an allocator that reads the
 * clock while it starts, as jemalloc does, must not come back here.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t second = 1000000000;
static const volatile int64_t none = 0;
static const volatile int64_t *offset = &none;

__attribute__((constructor)) static void map_offset(void) {
  const char *path = getenv("CLOCKSHIM_FILE");
  if (path == NULL) return;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  void *page = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (page != MAP_FAILED) offset = page;
}

int clock_gettime(clockid_t id, struct timespec *ts) {
  if (syscall(SYS_clock_gettime, id, ts) != 0) return -1;
  if (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE) return 0;
  int64_t t = ts->tv_sec * second + ts->tv_nsec + *offset;
  ts->tv_sec = t / second;
  ts->tv_nsec = t % second;
  return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
  (void)zone;
  struct timespec ts;
  if (clock_gettime(CLOCK_REALTIME, &ts) != 0) return -1;
  tv->tv_sec = ts.tv_sec;
  tv->tv_usec = ts.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *out) {
  struct timespec ts;
  if (clock_gettime(CLOCK_REALTIME, &ts) != 0) return -1;
  if (out != NULL) *out = ts.tv_sec;
  return ts.tv_sec;
}
