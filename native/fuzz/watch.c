/* Running the cases under the eyes of a second process (watch.h). */
#include "watch.h"
#include "world.h"

#if defined(_WIN32)

void fz_watch_case(uint64_t seed, const char *again) {
    (void)seed;
    (void)again;
}

int fz_watched(int (*run)(int argc, char **argv), int argc, char **argv) { return run(argc, argv); }

#else

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Shared with the process that watches this one. */
static struct fz_current {
    uint64_t seed;
    const char *again;
} *current;

enum { FZ_MOST_SECONDS = 60 }; /* no case may take longer: it hangs */

void fz_watch_case(uint64_t seed, const char *again) {
    *current = (struct fz_current){seed, again};
    alarm(FZ_MOST_SECONDS);
}

/* Whatever a case dies of, the parent process is left to print its seed. */
int fz_watched(int (*run)(int argc, char **argv), int argc, char **argv) {
    current = mmap(NULL, sizeof *current, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (current == MAP_FAILED) fz_fail("no shared memory");
    current->again = "case";
    const pid_t child = fork();
    if (child < 0) fz_fail("no second process");
    if (!child) return run(argc, argv);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == FZ_USAGE))
        return WEXITSTATUS(status);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) fprintf(stderr, "es_fuzz: it hangs\n");
    fprintf(stderr, "es_fuzz: case %llu failed; again: %s %s %llu\n", (unsigned long long)current->seed,
            argv[0], current->again, (unsigned long long)current->seed);
    return 1;
}

#endif
