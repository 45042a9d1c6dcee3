/* Makes file calls of a process fail. Preloaded by tests/soak/faults.py, which explains it.

   The state lies in a file that all processes of a run map, so that "the k-th call" counts the
   calls of all of them. Only calls on paths below the given folders count. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPEN, READ, WRITE, RENAME, UNLINK, FSYNC, MKDIR, MMAP, CALLS };
enum { OFF, ONCE, LASTING, SHORT, KILL };

struct state {
    atomic_int call, mode, code, at;
    atomic_int count[CALLS];
    atomic_int injected;
    char folders[4][256];
};

static struct state *state;

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("FAULTS_STATE");
    if (!path) return;
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    int file = real(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void *(*map)(void *, size_t, int, int, int, off_t) = dlsym(RTLD_NEXT, "mmap");
    void *found = map(NULL, sizeof(struct state), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) state = found;
    close(file);
}

static int below(const char *path) {
    char folder[512], link[64];
    int file;
    /* A name in an open folder counts by that folder. */
    if (sscanf(path, "/proc/self/fd/%d/", &file) == 1) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", file);
        ssize_t size = readlink(link, folder, sizeof folder - 1);
        if (size < 0) return 0;
        folder[size] = 0;
        path = folder;
    }
    for (int i = 0; i < 4; i++) {
        size_t length = strlen(state->folders[i]);
        if (length && !strncmp(path, state->folders[i], length)) return 1;
    }
    return 0;
}

/* 0: do the real call. 1: fail with errno. 2: do less than was asked. */
static int hit(int call, const char *path) {
    if (!state || atomic_load(&state->mode) == OFF || !path || !below(path)) return 0;
    int number = atomic_fetch_add(&state->count[call], 1) + 1;
    int mode = atomic_load(&state->mode), at = atomic_load(&state->at);
    if (mode == SHORT && !at) { /* every read and write */
        if (call != READ && call != WRITE) return 0;
        atomic_fetch_add(&state->injected, 1);
        return 2;
    }
    if (call != atomic_load(&state->call)) return 0;
    if (number != at && !(mode == LASTING && number > at)) return 0;
    atomic_fetch_add(&state->injected, 1);
    if (mode == KILL) kill(getpid(), SIGKILL);
    if (mode == SHORT) return 2;
    errno = atomic_load(&state->code);
    return 1;
}

static int hit_file(int call, int file) {
    if (!state || atomic_load(&state->mode) == OFF) return 0;
    char link[64], path[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return hit(call, path);
}

#define REAL(name) __typeof__(name) *real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define OPENS(name)                                                                    \
    int name(const char *path, int flags, ...) {                                       \
        va_list list; va_start(list, flags); mode_t mode = va_arg(list, mode_t); va_end(list); \
        REAL(name);                                                                    \
        return hit(OPEN, path) == 1 ? -1 : real(path, flags, mode);                    \
    }
OPENS(open)
OPENS(open64)

#define OPENSAT(name)                                                                  \
    int name(int folder, const char *path, int flags, ...) {                           \
        va_list list; va_start(list, flags); mode_t mode = va_arg(list, mode_t); va_end(list); \
        REAL(name);                                                                    \
        return hit(OPEN, path) == 1 ? -1 : real(folder, path, flags, mode);            \
    }
OPENSAT(openat)
OPENSAT(openat64)

#define LESS(size, found) (found == 2 && size > 1 ? size / 2 : size)

ssize_t read(int file, void *data, size_t size) {
    REAL(read);
    int found = hit_file(READ, file);
    return found == 1 ? -1 : real(file, data, LESS(size, found));
}
#define PREADS(name, type)                                                             \
    ssize_t name(int file, void *data, size_t size, type at) {                         \
        REAL(name);                                                                    \
        int found = hit_file(READ, file);                                              \
        return found == 1 ? -1 : real(file, data, LESS(size, found), at);              \
    }
PREADS(pread, off_t)
PREADS(pread64, off64_t)
ssize_t write(int file, const void *data, size_t size) {
    REAL(write);
    int found = hit_file(WRITE, file);
    return found == 1 ? -1 : real(file, data, LESS(size, found));
}

int rename(const char *old, const char *new) {
    REAL(rename);
    return hit(RENAME, new) == 1 ? -1 : real(old, new);
}
int renameat(int a, const char *old, int b, const char *new) {
    REAL(renameat);
    return hit(RENAME, new) == 1 ? -1 : real(a, old, b, new);
}
int unlink(const char *path) {
    REAL(unlink);
    return hit(UNLINK, path) == 1 ? -1 : real(path);
}
/* Names below an open folder, as shutil.rmtree removes them, count by that folder. */
int unlinkat(int folder, const char *path, int flags) {
    REAL(unlinkat);
    int found = path[0] == '/' ? hit(UNLINK, path) : hit_file(UNLINK, folder);
    return found == 1 ? -1 : real(folder, path, flags);
}
int fsync(int file) {
    REAL(fsync);
    return hit_file(FSYNC, file) == 1 ? -1 : real(file);
}
int fdatasync(int file) {
    REAL(fdatasync);
    return hit_file(FSYNC, file) == 1 ? -1 : real(file);
}
int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    return hit(MKDIR, path) == 1 ? -1 : real(path, mode);
}
#define MMAPS(name, type)                                                              \
    void *name(void *to, size_t size, int protection, int flags, int file, type at) {  \
        REAL(name);                                                                    \
        if (file >= 0 && hit_file(MMAP, file) == 1) return MAP_FAILED;                 \
        return real(to, size, protection, flags, file, at);                            \
    }
MMAPS(mmap, off_t)
MMAPS(mmap64, off64_t)
