/* Loaded before the C library into a process that is measured: counts its syncs, and makes each of them last longer.

   After the real call the thread sleeps for as many microseconds as STEPTRAIL_SYNC_DELAY_US says, as it would sleep in
   the kernel while a slow disk writes: it holds no lock of Python's, takes no processor time, and other threads go on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

static atomic_long counted;

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
    atomic_fetch_add(&counted, 1);
    errno = error;
    return result;
}

int fsync(int file) { return synced("fsync", file); }

int fdatasync(int file) { return synced("fdatasync", file); }

long steptrail_syncs(void) { return counted; }
