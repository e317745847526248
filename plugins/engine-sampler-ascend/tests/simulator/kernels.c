/* What the operators compute, where their documentation leaves a choice in the way that suits a caller least: of
 * equal logits, the highest id comes first. */
#define _GNU_SOURCE
#include "cann_sim.h"

#include <sim_device.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct token {
    float logit;
    int64_t id;
    double weight;
} token;

/* --- elements --- */

static char *place(const aclTensor *t, int64_t row, int64_t column, int64_t size) {
    return (char *)sim_mapped(t->data) + (row * t->stride + column) * size;
}

static float half_to_float(uint16_t bits) {
    _Float16 value;
    memcpy(&value, &bits, sizeof value);
    return (float)value;
}

static float get(const aclTensor *t, int64_t row, int64_t column) {
    uint32_t bits = 0;
    float value;
    uint16_t narrow;
    if (t->type == FLOAT) memcpy(&bits, place(t, row, column, 4), 4);
    else {
        memcpy(&narrow, place(t, row, column, 2), 2);
        if (t->type == HALF) return half_to_float(narrow);
        bits = (uint32_t)narrow << 16;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void put(const aclTensor *t, int64_t row, int64_t column, float value) {
    if (t->type == FLOAT) memcpy(place(t, row, column, 4), &value, 4);
    else if (t->type == HALF) {
        const _Float16 narrow = (_Float16)value;
        memcpy(place(t, row, column, 2), &narrow, 2);
    } else {
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        const uint16_t narrow = (uint16_t)(isnan(value) ? 0x7FC0 : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
        memcpy(place(t, row, column, 2), &narrow, 2);
    }
}

static void put_id(const aclTensor *t, int64_t row, int64_t column, int64_t id) {
    memcpy(place(t, row, column, 8), &id, sizeof id);
}

static int32_t get_int(const aclTensor *t, int64_t row) {
    int32_t value;
    memcpy(&value, place(t, row, 0, 4), sizeof value);
    return value;
}

/* --- rows --- */

static int descending(const void *a, const void *b) {
    const token *x = a, *y = b;
    if (isnan(x->logit) || isnan(y->logit)) return isnan(y->logit) - isnan(x->logit);
    if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
    return x->id < y->id ? 1 : -1;
}

static int descending_stable(const void *a, const void *b) {
    const token *x = a, *y = b;
    if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

static token *sorted(const aclTensor *t, int64_t row, int (*order)(const void *, const void *)) {
    token *all = malloc((size_t)t->columns * sizeof *all);
    for (int64_t i = 0; i < t->columns; i++) all[i] = (token){get(t, row, i), i, 0};
    qsort(all, (size_t)t->columns, sizeof *all, order);
    return all;
}

/* Softmax over the first n of some sorted tokens. */
static void weigh(token *all, int64_t n) {
    double total = 0;
    for (int64_t i = 0; i < n; i++) total += all[i].weight = exp((double)all[i].logit - all[0].logit);
    for (int64_t i = 0; i < n; i++) all[i].weight /= total;
}

/* --- kernels --- */

void sum_rows(const aclOpExecutor *call) {
    const aclTensor *self = call->tensors[0], *out = call->tensors[1];
    for (int64_t row = 0; row < self->rows; row++) {
        double sum = 0;
        for (int64_t i = 0; i < self->columns; i++) sum += get(self, row, i);
        put(out, row, 0, (float)sum);
    }
}

void find_greatest(const aclOpExecutor *call) {
    const aclTensor *self = call->tensors[0], *out = call->tensors[1];
    for (int64_t row = 0; row < self->rows; row++) {
        float best = -INFINITY;
        for (int64_t i = 0; i < self->columns; i++) best = fmaxf(best, get(self, row, i));
        put(out, row, 0, best);
    }
}

void find_best(const aclOpExecutor *call) {
    const aclTensor *self = call->tensors[0], *out = call->tensors[1];
    for (int64_t row = 0; row < self->rows; row++) {
        token *all = sorted(self, row, descending);
        put_id(out, row, 0, cann_sim_faults() & LIST_OUTSIDE ? self->columns : all[0].id);
        free(all);
    }
}

void find_leading(const aclOpExecutor *call) {
    const aclTensor *self = call->tensors[0], *values = call->tensors[1], *ids = call->tensors[2];
    for (int64_t row = 0; row < self->rows; row++) {
        token *all = sorted(self, row, descending);
        const int64_t last = call->numbers[0] - 1;
        if (cann_sim_faults() & LIST_TWICE) all[1] = all[0];
        if (cann_sim_faults() & LIST_OUTSIDE) all[last].id = -1;
        if (cann_sim_faults() & LIST_UNSORTED) {
            const token worst = all[last];
            memmove(all + 1, all, (size_t)last * sizeof *all);
            all[0] = worst;
        }
        for (int64_t i = 0; i <= last; i++) {
            put(values, row, i, all[i].logit);
            put_id(ids, row, i, all[i].id);
        }
        free(all);
    }
}

void multiply(const aclOpExecutor *call) {
    const aclTensor *self = call->tensors[0], *other = call->tensors[1], *out = call->tensors[2];
    for (int64_t row = 0; row < self->rows; row++)
        for (int64_t i = 0; i < self->columns; i++) put(out, row, i, get(self, row, i) * get(other, row, 0));
}

/* k keeps all that equal the k-th; then tokens go while those from the last one up weigh no more than 1 - p. */
void filter(const aclOpExecutor *call) {
    const aclTensor *self = call->tensors[0], *p = call->tensors[1], *k = call->tensors[2],
                    *out = call->tensors[3];
    for (int64_t row = 0; row < self->rows; row++) {
        token *all = sorted(self, row, descending);
        int64_t left = self->columns;
        const int64_t first = k ? get_int(k, row) : 0;
        if (first > 0 && first < left)
            for (left = first; left < self->columns && all[left].logit == all[first - 1].logit;) left++;
        weigh(all, left);
        double mass = 0;
        while (p && left > 1 && (mass += all[left - 1].weight) <= 1 - (double)get(p, row, 0)) left--;
        for (int64_t i = 0; i < self->columns; i++) put(out, row, i, -INFINITY);
        for (int64_t i = 0; i < left; i++) put(out, row, all[i].id, all[i].logit);
        free(all);
    }
}

/* How many of a row's tokens are left, of weighed ones. */
static int64_t leave(token *all, int64_t n, double p, double min_p) {
    int64_t left = n;
    double before = 0;
    for (int64_t i = 0; p < 1 && i < n; before += all[i++].weight)
        if (i && before >= p) {
            left = i;
            break;
        }
    while (min_p > 0 && left > 1 && all[left - 1].weight < min_p * all[0].weight) left--;
    return left;
}

void sample(const aclOpExecutor *call) {
    const aclTensor *self = call->tensors[0], *k = call->tensors[1], *p = call->tensors[2],
                    *q = call->tensors[3], *min_p = call->tensors[4], *out = call->tensors[5];
    for (int64_t row = 0; row < self->rows; row++) {
        token *all = sorted(self, row, descending_stable);
        const int64_t asked = get_int(k, row), most = self->columns < 1024 ? self->columns : 1024;
        if (asked <= 0) cann_sim_wrong("TopKTopPSample: top_k is not positive");
        const int64_t n = asked >= 1 && asked <= most ? asked : self->columns;
        weigh(all, n);
        const int64_t left = leave(all, n, get(p, row, 0), min_p ? get(min_p, row, 0) : 0);
        int64_t best = 0;
        double highest = -1;
        for (int64_t i = 0; q && i < self->columns; i++) {
            const double noise = get(q, row, i), score = (i < left ? all[i].weight : 0) / (noise + 1e-8);
            if (!(noise > 0)) cann_sim_wrong("TopKTopPSample: noise that is not positive");
            if (score > highest) highest = score, best = i;
        }
        put_id(out, row, 0, all[best].id);
        free(all);
    }
}
