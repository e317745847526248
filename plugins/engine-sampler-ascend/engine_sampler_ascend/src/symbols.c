/* CANN's functions, found by name where op-plugin looks for them: packages of custom operators first, then the
 * libraries of CANN. */
#include "cann.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_HANDLES = sizeof((cann_symbols *)0)->handles / sizeof(void *), PATH_SIZE = 4096 };

static void *load(cann_symbols *cann, const char *path) {
    if (cann->n_handles == MOST_HANDLES) return NULL;
    void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE); /* its threads go on */
    if (handle) cann->handles[cann->n_handles++] = handle;
    return handle;
}

static const char *home(void) {
    const char *path = getenv("ASCEND_HOME_PATH");
    return path && *path ? path : getenv("ASCEND_TOOLKIT_HOME");
}

/* A library of CANN: as the loader finds it, or in CANN's folder. */
static void *load_own(cann_symbols *cann, const char *name) {
    void *handle = load(cann, name);
    if (handle || !home()) return handle;
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/lib64/%s", home(), name);
    return load(cann, path);
}

static void load_custom(cann_symbols *cann, const char *folder, size_t length) {
    char path[PATH_SIZE];
    if (!length) return;
    snprintf(path, sizeof path, "%.*s/op_api/lib/libcust_opapi.so", (int)length, folder);
    load(cann, path);
}

/* Each folder of a list that `separator` divides, below `parent` if that is given. */
static void load_all_custom(cann_symbols *cann, const char *list, char separator, const char *parent) {
    for (const char *end; list && *list; list = end + (*end != 0)) {
        end = strchr(list, separator);
        if (!end) end = list + strcspn(list, "\r\n");
        char folder[PATH_SIZE];
        snprintf(folder, sizeof folder, "%s%s%.*s", parent ? parent : "", parent ? "/" : "",
                 (int)(end - list), list);
        load_custom(cann, folder, strlen(folder));
        if (*end != separator) return;
    }
}

/* The vendors that config.ini lists, in its order. */
static void load_vendors(cann_symbols *cann) {
    const char *opp = getenv("ASCEND_OPP_PATH");
    char vendors[PATH_SIZE - 16], path[PATH_SIZE], line[PATH_SIZE];
    if (!opp || !*opp) return;
    snprintf(vendors, sizeof vendors, "%s/vendors", opp);
    snprintf(path, sizeof path, "%s/config.ini", vendors);
    FILE *file = fopen(path, "r");
    if (!file) return;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "load_priority=", 14) == 0) load_all_custom(cann, line + 14, ',', vendors);
    fclose(file);
}

static int compare_names(const void *a, const void *b) { return strcmp((const char *)a, (const char *)b); }

/* Newer versions divide libopapi.so: libopapi_nn.so, libopapi_math.so, ... */
static void load_parts(cann_symbols *cann) {
    enum { MOST_PARTS = 32, NAME_SIZE = 128 };
    char path[PATH_SIZE], names[MOST_PARTS][NAME_SIZE];
    int n = 0;
    if (!home()) return;
    snprintf(path, sizeof path, "%s/lib64", home());
    DIR *listing = opendir(path);
    if (!listing) return;
    for (struct dirent *entry; n < MOST_PARTS && (entry = readdir(listing));) {
        const size_t length = strlen(entry->d_name);
        if (strncmp(entry->d_name, "libopapi_", 9) != 0 || length >= NAME_SIZE) continue;
        if (strcmp(entry->d_name + length - 3, ".so") == 0) memcpy(names[n++], entry->d_name, length + 1);
    }
    closedir(listing);
    qsort(names, (size_t)n, NAME_SIZE, compare_names);
    for (int i = 0; i < n; i++) {
        if ((size_t)snprintf(path, sizeof path, "%s/lib64/%s", home(), names[i]) < sizeof path)
            load(cann, path);
    }
}

static void *find(const cann_symbols *cann, const char *name) {
    for (int32_t i = 0; i < cann->n_handles; i++) {
        void *symbol = dlsym(cann->handles[i], name);
        if (symbol) return symbol;
    }
    return NULL;
}

/* Function pointers are not object pointers in C: POSIX has them copied. */
static bool assign(void *pointer, void *symbol) {
    memcpy(pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* An operator is there if some library has both phases. */
static void find_phases(const cann_symbols *cann, int32_t first, const char *name, void *phases) {
    char both[2][80];
    snprintf(both[0], sizeof both[0], "aclnn%sGetWorkspaceSize", name);
    snprintf(both[1], sizeof both[1], "aclnn%s", name);
    for (int32_t i = first; i < cann->n_handles; i++) {
        void *symbols[2] = {dlsym(cann->handles[i], both[0]), dlsym(cann->handles[i], both[1])};
        if (!symbols[0] || !symbols[1]) continue;
        memcpy(phases, symbols, sizeof symbols);
        return;
    }
}

bool cann_load(cann_symbols *cann, char *why, size_t size) {
    *cann = (cann_symbols){0};
    const char *missing = NULL;
    if (!load_own(cann, "libascendcl.so")) {
        snprintf(why, size, "there is no libascendcl.so: CANN is not installed, or not on the loader's path");
        cann_unload(cann);
        return false;
    }
    load_own(cann, "libnnopbase.so");
    const int32_t operators = cann->n_handles;
    load_all_custom(cann, getenv("ASCEND_CUSTOM_OPP_PATH"), ':', NULL);
    load_vendors(cann);
    load_own(cann, "libopapi.so");
    load_parts(cann);
#define FIND(result, name, parameters) \
    if (!assign((void *)&cann->name, find(cann, #name))) missing = #name;
    CANN_RUNTIME(FIND)
    CANN_OBJECTS(FIND)
#undef FIND
#define FIND(name, parameters) find_phases(cann, operators, #name, (void *)&cann->name);
    CANN_OPERATORS(FIND)
#undef FIND
    if (!missing && !cann->Topk.first) missing = "aclnnTopk";
    if (!missing && !cann->ReduceSum.first) missing = "aclnnReduceSum";
    if (!missing) return true;
    snprintf(why, size, "this version of CANN has no %s", missing);
    cann_unload(cann);
    return false;
}

void cann_unload(cann_symbols *cann) {
    while (cann->n_handles) dlclose(cann->handles[--cann->n_handles]);
}
