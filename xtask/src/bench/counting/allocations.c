// Counts the allocations of a process, of Rust and of SQLite alike. `cargo xtask bench` compiles this and preloads it
// into a server. The counts go to the file that COUNT_ALLOCATIONS names, which has room for them: three numbers of 64
// bits. It needs glibc.

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

enum { LARGE = 1024 };

struct counts {
    uint64_t allocations, bytes, large;
};

static struct counts before_main;
static struct counts *counts = &before_main;

__attribute__((constructor)) static void share_counts(void) {
    const char *path = getenv("COUNT_ALLOCATIONS");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *shared = mmap(NULL, sizeof(struct counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (shared != MAP_FAILED) counts = shared;
}

static void count(size_t bytes) {
    __atomic_fetch_add(&counts->allocations, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&counts->bytes, bytes, __ATOMIC_RELAXED);
    if (bytes >= LARGE) __atomic_fetch_add(&counts->large, 1, __ATOMIC_RELAXED);
}

void *malloc(size_t bytes) {
    count(bytes);
    return __libc_malloc(bytes);
}

void *calloc(size_t number, size_t bytes) {
    count(number * bytes);
    return __libc_calloc(number, bytes);
}

void *realloc(void *old, size_t bytes) {
    count(bytes);
    return __libc_realloc(old, bytes);
}

void *memalign(size_t alignment, size_t bytes) {
    count(bytes);
    return __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    return memalign(alignment, bytes);
}

int posix_memalign(void **place, size_t alignment, size_t bytes) {
    *place = memalign(alignment, bytes);
    return *place ? 0 : ENOMEM;
}
