/* Which programs run, in which way, and what is promised for them. */
#include "context.h"

enum {
    ALWAYS = ES_READS_ONLY | ES_ANY_STRIDE,
    EXACTLY = ALWAYS | ES_ROW_FAULTS | ES_EXACT | ES_DETERMINISTIC | ES_BATCH_INVARIANT
};

static int32_t kind_at(const es_program *program, int32_t i) {
    const char *at = (const char *)program->ops + (size_t)i * program->ops->size;
    return ((const es_op *)(const void *)at)->kind;
}

bool ascend_has(const ascend_program *program, int32_t kind) {
    for (int32_t i = 0; i < program->n; i++)
        if (program->kinds[i] == kind) return true;
    return false;
}

int64_t ascend_noise_width(const ascend_program *program, int64_t vocab_size) {
    return ascend_has(program, ES_OP_TOP_K) && vocab_size > MOST_TOP_K ? MOST_TOP_K : vocab_size;
}

/* Whether the steps, without the selector, are some of those listed, in this order. */
static bool follows(const ascend_program *program, const int32_t *kinds, int32_t n) {
    int32_t next = 0;
    for (int32_t i = 0; i < program->n - program->selects; i++) {
        while (next < n && kinds[next] != program->kinds[i]) next++;
        if (next++ == n) return false;
    }
    return true;
}

/* Few tokens are left, or one: the host can finish the row from its best tokens. */
static bool leaves_few(const ascend_program *program) {
    const bool draws = ascend_has(program, ES_OP_DIST),
               cuts = ascend_has(program, ES_OP_TOP_P) || ascend_has(program, ES_OP_MIN_P);
    return !draws && !cuts && (program->selects || ascend_has(program, ES_OP_TOP_K));
}

static bool choose_operators(const es_context *context, ascend_program *program) {
    static const int32_t scaled[] = {ES_OP_TEMPERATURE};
    static const int32_t filtered[] = {ES_OP_TOP_K, ES_OP_TOP_P};
    static const int32_t drawn[] = {ES_OP_TEMPERATURE, ES_OP_TOP_K, ES_OP_TOP_P, ES_OP_MIN_P};
    const cann_symbols *cann = &context->cann;
    if (ascend_has(program, ES_OP_DIST)) {
        program->way = DRAWN;
        const bool there = cann->TopKTopPSampleV2.first ||
                           (cann->TopKTopPSample.first && !ascend_has(program, ES_OP_MIN_P));
        return follows(program, drawn, 4) && there && cann->Mul.first && cann->Amax.first && context->filters;
    }
    if (ascend_has(program, ES_OP_GREEDY) && follows(program, scaled, 1)) {
        program->way = BEST;
        return cann->ArgMax.first && cann->Amax.first;
    }
    if (leaves_few(program)) return true;
    program->way = FILTERED;
    return !program->selects && follows(program, filtered, 2) && cann->ApplyTopKTopP.first &&
           context->filters;
}

static bool choose_way(const es_context *context, ascend_program *program) {
    program->way = CANDIDATES;
    return context->exact ? leaves_few(program) : choose_operators(context, program);
}

int32_t ascend_read_program(es_context *context, const es_program *program, ascend_program *out) {
    *out = (ascend_program){0};
    if (program->n_ops < 1 || program->n_ops > MOST_STEPS)
        return ascend_refuse(context, ES_UNSUPPORTED, "a program of more steps, or none");
    for (int32_t i = 0; i < program->n_ops; i++) {
        const int32_t kind = kind_at(program, i);
        const bool selects = kind == ES_OP_GREEDY || kind == ES_OP_DIST;
        if (!selects && kind != ES_OP_PENALTIES && kind != ES_OP_TEMPERATURE && kind != ES_OP_TOP_K &&
            kind != ES_OP_TOP_P && kind != ES_OP_MIN_P)
            return ascend_refuse(context, ES_UNSUPPORTED, "a step that it does not run");
        if (selects && i != program->n_ops - 1)
            return ascend_refuse(context, ES_INVALID, "a selector before the end");
        out->kinds[out->n++] = kind;
        out->selects = selects;
    }
    if (choose_way(context, out)) return ES_OK;
    return ascend_refuse(context, ES_UNSUPPORTED, "no operator for these steps in this order");
}

static int32_t check_logits(es_context *context, const es_query *query, const ascend_program *program) {
    const int32_t type = ascend_type(query->code, query->bits);
    if (type < 0) return ascend_refuse(context, ES_UNSUPPORTED, "logits of this type");
    if (!context->is_ieee && ((context->exact && query->program) || type == ACL_BF16))
        return ascend_refuse(context, ES_UNSUPPORTED,
                             "this chip has no bfloat16, and may change infinities and NaN");
    if (query->vocab_size > MOST_VOCABULARY)
        return ascend_refuse(context, ES_UNSUPPORTED, "a vocabulary above 2^20");
    const bool first_version = program->way == DRAWN && !context->cann.TopKTopPSampleV2.first;
    if (first_version && type == ACL_FLOAT)
        return ascend_refuse(context, ES_UNSUPPORTED, "TopKTopPSample draws from 16-bit logits only");
    return ES_OK;
}

static uint32_t promises_of(const es_context *context, const ascend_program *program) {
    const uint32_t faults = context->is_ieee ? ES_ROW_FAULTS : 0;
    const uint32_t cut = ascend_has(program, ES_OP_TOP_K) || program->way == FILTERED ? ES_PROCESSED : 0;
    const uint32_t left = program->selects ? 0 : ES_SURVIVORS;
    switch (program->way) {
    case CANDIDATES: return (context->is_ieee ? EXACTLY : ALWAYS) | ES_MASKS | cut | left;
    case FILTERED: return ALWAYS | faults | cut | left;
    default: return ALWAYS | faults | ES_ON_DEVICE;
    }
}

int32_t ascend_query(es_context *context, const es_query *query, es_answer *answer) {
    ascend_program program = {0};
    int32_t code = query->program ? ascend_read_program(context, query->program, &program) : ES_OK;
    if (code == ES_OK) code = check_logits(context, query, &program);
    if (code != ES_OK) return code;
    answer->alignment = ALIGNMENT;
    answer->max_top_k = MOST_TOP_K;
    if (!query->program) {
        answer->promises = context->exact && context->is_ieee ? EXACTLY : ALWAYS;
        return ES_OK;
    }
    answer->promises = promises_of(context, &program);
    answer->max_survivors = program.selects ? 0 : MOST_TOP_K;
    answer->ties = program.way == CANDIDATES ? ES_TIES_BY_ID : ES_TIES_ANY;
    if (program.way != DRAWN) return ES_OK;
    answer->random = ES_RANDOM_EXPONENTIAL;
    answer->random_width = ascend_noise_width(&program, query->vocab_size);
    return ES_OK;
}

int32_t ascend_compile(es_context *context, const es_program *program, uint32_t *number) {
    if (context->n_programs == MOST_PROGRAMS)
        return ascend_refuse(context, ES_UNSUPPORTED, "too many programs");
    const int32_t code = ascend_read_program(context, program, &context->programs[context->n_programs]);
    if (code == ES_OK) *number = context->n_programs++;
    return code;
}
