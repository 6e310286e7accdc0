/* A full disk for one folder, without root: LD_PRELOAD this with ENOSPC_UNDER=folder and ENOSPC_AFTER=bytes. Every
 * process may write that many bytes below the folder, then write, pwrite, writev and copy_file_range fail with ENOSPC,
 * as do mkdir from the start when ENOSPC_AFTER is 0. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static size_t written;

/* full says whether n more bytes into the file behind fd are too many. */
static int full(int fd, size_t n) {
  const char *under = getenv("ENOSPC_UNDER"), *after = getenv("ENOSPC_AFTER");
  char link[64], path[4096];
  if (!under || !after) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t len = readlink(link, path, sizeof path - 1);
  if (len < 0) return 0;
  path[len] = 0;
  if (strncmp(path, under, strlen(under)) != 0) return 0;
  written += n;
  return written > strtoul(after, NULL, 10);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define GUARD(fd, n) \
  if (full(fd, n)) { \
    errno = ENOSPC; \
    return -1; \
  }

ssize_t write(int fd, const void *p, size_t n) {
  GUARD(fd, n)
  return REAL(write)(fd, p, n);
}
ssize_t pwrite(int fd, const void *p, size_t n, off_t at) {
  GUARD(fd, n)
  return REAL(pwrite)(fd, p, n, at);
}
ssize_t pwrite64(int fd, const void *p, size_t n, off64_t at) {
  GUARD(fd, n)
  return REAL(pwrite64)(fd, p, n, at);
}
ssize_t writev(int fd, const struct iovec *v, int count) {
  size_t n = 0;
  for (int i = 0; i < count; i++) n += v[i].iov_len;
  GUARD(fd, n)
  return REAL(writev)(fd, v, count);
}
ssize_t copy_file_range(int in, off64_t *at, int out, off64_t *to, size_t n, unsigned flags) {
  struct stat s;
  size_t size = fstat(in, &s) == 0 && (size_t)s.st_size < n ? (size_t)s.st_size : n;
  GUARD(out, size)
  return REAL(copy_file_range)(in, at, out, to, n, flags);
}
int mkdir(const char *path, mode_t mode) {
  const char *under = getenv("ENOSPC_UNDER"), *after = getenv("ENOSPC_AFTER");
  if (under && after && strtoul(after, NULL, 10) == 0 && strncmp(path, under, strlen(under)) == 0) {
    errno = ENOSPC;
    return -1;
  }
  return REAL(mkdir)(path, mode);
}
