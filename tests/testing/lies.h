/* The lies of a source, which lists them as LIES(X), by number and by name. The environment's LIE chooses. */
#pragma once

#include <stdlib.h>
#include <string.h>

enum {
    honest,
#define X(name) name,
    LIES(X)
#undef X
        known
};

static const char *const names[] = {"",
#define X(name) #name,
                                    LIES(X)
#undef X
};

static int lie;

/* Whether there is a lie of the name that the environment gives; it is `lie` from then on. */
static int choose_lie(void) {
    const char *wanted = getenv("LIE");
    for (lie = 0; lie < known && strcmp(names[lie], wanted ? wanted : ""); lie++) {}
    return lie < known;
}
