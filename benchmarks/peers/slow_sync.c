/* Loaded before the C library into a process that is measured: counts its syncs, and makes each of them last longer.

   After the real call the thread sleeps for as many microseconds as STEPTRAIL_SYNC_DELAY_US says, as it would sleep in
   the kernel while a slow disk writes: it holds no lock of Python's, takes no processor time, and other threads go on.

   The count is in the file that STEPTRAIL_SYNC_COUNT names, so that a server which the process starts counts with it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static atomic_long *counted;

__attribute__((constructor)) static void open_count(void) {
    const char *name = getenv("STEPTRAIL_SYNC_COUNT");
    int file = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    counted = mmap(NULL, sizeof *counted, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (counted == MAP_FAILED)
        abort();
}

static int synced(const char *name, int file) {
    static long delay = -1; /* every thread that gets here first reads the same */
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    int result = real(file), error = errno;
    if (delay < 0) {
        const char *given = getenv("STEPTRAIL_SYNC_DELAY_US");
        delay = given ? atol(given) : 0;
    }
    struct timespec left = {delay / 1000000, delay % 1000000 * 1000};
    while (delay && nanosleep(&left, &left) && errno == EINTR)
        ;
    atomic_fetch_add(counted, 1);
    errno = error;
    return result;
}

int fsync(int file) { return synced("fsync", file); }

int fdatasync(int file) { return synced("fdatasync", file); }

long steptrail_syncs(void) { return *counted; }
