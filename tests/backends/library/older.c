/* The packaged kernels as a vendor built them against an earlier header: OLDER, the header before it grew. It knows
 * no later operation and no later parameter. The packaged library's path is in OLDER_KERNELS.
 */
#include OLDER

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const es_api *base;

static int32_t query(es_context *context, const es_query *request, es_answer *answer) {
    const es_program *program = request->program;
    for (int32_t i = 0; program && i < program->n_ops; i++) {
        const es_op *op = (const es_op *)(const void *)((const char *)program->ops +
                                                        (size_t)i * program->ops->size);
        if (op->kind > ES_OP_INFILL && op->kind < ES_OP_GREEDY) return ES_UNSUPPORTED;
    }
    return base->query(context, request, answer);
}

/* The kernels get what this header names of each request, and nothing behind it. */
static int32_t run(es_context *context, es_batch *batch) {
    const es_table *given = batch->table;
    const size_t apart = given->params->size;
    es_table table = *given;
    char *params = calloc((size_t)given->capacity, apart);
    if (!params) return ES_NO_MEMORY;
    for (size_t slot = 0; slot < (size_t)given->capacity; slot++) {
        const char *from = (const char *)given->params + slot * apart;
        memcpy(params + slot * apart, from, sizeof(es_params));
    }
    table.params = (const es_params *)(const void *)params;
    batch->table = &table;
    const int32_t code = base->run(context, batch);
    batch->table = given;
    free(params);
    return code;
}

ES_EXPORT int32_t es_get_api(uint32_t host_abi, const es_api **out) {
    static es_api table;
    const char *path = getenv("OLDER_KERNELS");
    void *loaded = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    int32_t (*get)(uint32_t, const es_api **) = NULL;
    void *symbol = loaded ? dlsym(loaded, "es_get_api") : NULL;
    memcpy(&get, &symbol, sizeof get);
    if (!get || get(host_abi, &base) != ES_OK) return ES_UNSUPPORTED;
    table = *base;
    table.size = sizeof table;
    table.abi = ES_ABI;
    table.name = "older";
    table.query = query;
    table.run = run;
    *out = &table;
    return ES_OK;
}
