/* A layer between a program and its files that fails or kills it at a chosen operation.
 *
 * Preloaded (LD_PRELOAD), it counts operations on files below one folder: opening, reading, writing, syncing,
 * renaming, linking, making and removing. The chosen one, and maybe all that follow, fails with an
 * error; or the process group is killed in its midst, a write when half of it is done. It also
 * shifts the clock.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static char folder[4096];
static long count, chosen = -1, shift;
static int failure, lasting;

/* failure: an errno, or 0 to kill; after: operations that still work, -1 for all. */
void faulty_arm(const char *path, long after, int error, int for_good) {
  strncpy(folder, path, sizeof folder - 1);
  count = 0, chosen = after, failure = error, lasting = for_good;
}
long faulty_count(void) { return count; }
void faulty_clock(long seconds) { shift = seconds; }

static int below(const char *path) {
  size_t size = strlen(folder);
  return size && !strncmp(path, folder, size) && (path[size] == '/' || !path[size]);
}
static int below_fd(int fd) {
  char name[64], path[4096];
  if (!folder[0]) return 0;
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(name, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return below(path);
}
static int below_at(int dir, const char *path) {
  return path[0] == '/' || dir == AT_FDCWD ? below(path) : below_fd(dir);
}
static int hit(void) {
  long now = count++;
  return chosen >= 0 && (now == chosen || (lasting && now > chosen));
}
static void die(void) {
  kill(0, SIGKILL);
  pause();
}
/* Fail the call if it is the chosen one. */
#define CHECK(mine)           \
  if ((mine) && hit()) {      \
    if (!failure) die();      \
    errno = failure;          \
    return -1;                \
  }
#define REAL(name, type, ...)                                \
  static type (*real)(__VA_ARGS__);                          \
  if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

#define OPEN(name)                                           \
  int name(const char *path, int flags, ...) {               \
    REAL(name, int, const char *, int, ...);                 \
    va_list rest;                                            \
    va_start(rest, flags);                                   \
    mode_t mode = va_arg(rest, mode_t);                      \
    va_end(rest);                                            \
    CHECK(below(path));                                      \
    return real(path, flags, mode);                          \
  }
OPEN(open)
OPEN(open64)
#define OPENAT(name)                                         \
  int name(int dir, const char *path, int flags, ...) {      \
    REAL(name, int, int, const char *, int, ...);            \
    va_list rest;                                            \
    va_start(rest, flags);                                   \
    mode_t mode = va_arg(rest, mode_t);                      \
    va_end(rest);                                            \
    CHECK(below_at(dir, path));                              \
    return real(dir, path, flags, mode);                     \
  }
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int fd, const void *data, size_t size) {
  REAL(write, ssize_t, int, const void *, size_t);
  if (below_fd(fd) && hit()) {
    if (!failure) {
      if (real(fd, data, size / 2) >= 0) die();
      die();
    }
    errno = failure;
    return -1;
  }
  return real(fd, data, size);
}
ssize_t read(int fd, void *data, size_t size) {
  REAL(read, ssize_t, int, void *, size_t);
  CHECK(below_fd(fd));
  return real(fd, data, size);
}
int fsync(int fd) {
  REAL(fsync, int, int);
  CHECK(below_fd(fd));
  return real(fd);
}
int ftruncate64(int fd, off64_t size) {
  REAL(ftruncate64, int, int, off64_t);
  CHECK(below_fd(fd));
  return real(fd, size);
}
int rename(const char *from, const char *to) {
  REAL(rename, int, const char *, const char *);
  CHECK(below(to));
  return real(from, to);
}
int link(const char *from, const char *to) {
  REAL(link, int, const char *, const char *);
  CHECK(below(to));
  return real(from, to);
}
int mkdir(const char *path, mode_t mode) {
  REAL(mkdir, int, const char *, mode_t);
  CHECK(below(path));
  return real(path, mode);
}
int unlink(const char *path) {
  REAL(unlink, int, const char *);
  CHECK(below(path));
  return real(path);
}
int unlinkat(int dir, const char *path, int flags) {
  REAL(unlinkat, int, int, const char *, int);
  CHECK(below_at(dir, path));
  return real(dir, path, flags);
}
int rmdir(const char *path) {
  REAL(rmdir, int, const char *);
  CHECK(below(path));
  return real(path);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  REAL(clock_gettime, int, clockid_t, struct timespec *);
  int code = real(clock, now);
  if (!code && clock == CLOCK_REALTIME) now->tv_sec += shift;
  return code;
}
