/* Pinned memory for uploads, and grammar masks that are uploaded before their step. */
#include "library_internal.h"

#include <stdlib.h>
#include <string.h>

/* --- pinned memory -------------------------------------------------------------------------------------- */

void free_staging(staging *place) {
    sim_destroy_event(place->event);
    sim_deallocate_pinned(place->pinned);
    *place = (staging){0};
}

int32_t make_staging(staging *place, int64_t bytes) {
    int32_t code = SIM_OK;
    if (place->bytes < bytes) {
        sim_deallocate_pinned(place->pinned);
        place->pinned = NULL;
        place->bytes = 0;
        code = sim_allocate_pinned(2 * bytes, &place->pinned);
        if (code == SIM_OK) place->bytes = 2 * bytes;
    }
    if (code == SIM_OK && !place->event) code = sim_create_event(&place->event);
    return code;
}

int32_t take_staging(es_context *context, int64_t bytes, staging **out) {
    for (int32_t i = 0; i < STAGINGS; i++) {
        staging *place = &context->stagings[i];
        if (place->event && sim_poll(place->event) != SIM_OK) continue;
        *out = place;
        return make_staging(place, bytes);
    }
    *out = &context->stagings[0]; /* all are being read: rather wait than take more and more */
    const int32_t code = sim_synchronize(context->uploads);
    if (code != SIM_OK) forget_requests(context);
    return code == SIM_OK ? make_staging(*out, bytes) : code;
}

/* --- masks ---------------------------------------------------------------------------------------------- */

mask_set *masks_of(es_context *context, uint64_t number) {
    for (int32_t i = 0; i < MASK_SETS; i++)
        if (number && context->masks[i].number == number) return &context->masks[i];
    return NULL;
}

void free_masks(es_context *context) {
    for (int32_t i = 0; i < MASK_SETS; i++) {
        mask_set *set = &context->masks[i];
        free_staging(&set->upload);
        sim_deallocate(set->device);
        free(set->has);
    }
}

/* One that no step reads, and whose last upload is done. */
static mask_set *unused_set(es_context *context) {
    for (int32_t i = 0; i < MASK_SETS; i++) {
        mask_set *set = &context->masks[i];
        if (set->users) continue;
        if (!set->upload.event || sim_poll(set->upload.event) != SIM_NOT_READY) return set;
    }
    return NULL;
}

static int32_t make_set(mask_set *set, int64_t rows, int64_t words) {
    const int64_t bytes = rows * words * 4;
    uint8_t *has = grown(set->has, rows, 1);
    if (!has) return SIM_NO_MEMORY;
    set->has = has;
    memset(has, 0, (size_t)rows);
    set->rows = rows;
    set->words = words;
    int32_t code = make_staging(&set->upload, bytes);
    if (code == SIM_OK && set->bytes < bytes) {
        sim_deallocate(set->device);
        set->device = NULL;
        set->bytes = 0;
        code = sim_allocate(2 * bytes, &set->device);
        if (code == SIM_OK) set->bytes = 2 * bytes;
    }
    return code;
}

static int32_t check_masks(es_context *context, const es_masks *masks) {
    if (!masks || masks->size < sizeof *masks || masks->n < 0 || masks->total < 0 || masks->vocab_size < 1)
        return refuse(context, ES_INVALID, "invalid masks");
    if (masks->n && (!masks->rows || !masks->bitmask || masks->bitmask_stride * 32 < masks->vocab_size))
        return refuse(context, ES_INVALID, "the masks are missing or too short");
    for (int32_t i = 0; i < masks->n; i++)
        if (masks->rows[i] < 0 || masks->rows[i] >= masks->total)
            return refuse(context, ES_INVALID, "the mask of row %lld of %lld", (long long)masks->rows[i],
                          (long long)masks->total);
    return ES_OK;
}

int32_t stage_masks(es_context *context, const es_masks *masks, uint64_t *number) {
    const int32_t wrong = check_masks(context, masks);
    if (wrong != ES_OK) return wrong;
    for (int32_t i = 0; i < MASK_SETS; i++) context->masks[i].number = 0;
    mask_set *set = unused_set(context);
    if (!set) return refuse(context, ES_BUSY, "the masks of %d steps are in use", MASK_SETS);
    const int64_t words = (masks->vocab_size + 31) / 32;
    int32_t code = make_set(set, masks->total, words);
    if (code != SIM_OK) return refuse_device(context, "memory for masks", code);
    for (int32_t i = 0; i < masks->n; i++) {
        const int64_t row = masks->rows[i];
        memcpy((char *)set->upload.pinned + row * words * 4, masks->bitmask + row * masks->bitmask_stride,
               (size_t)words * 4);
        set->has[row] = 1;
    }
    code = sim_copy(set->device, set->upload.pinned, masks->total * words * 4, context->uploads);
    if (code == SIM_OK) code = record_uploads(context);
    if (code == SIM_OK) code = sim_record(set->upload.event, context->uploads);
    if (code != SIM_OK) {
        settle_uploads(context);
        return refuse_device(context, "the upload of masks", code);
    }
    *number = set->number = ++context->mask_numbers;
    return ES_OK;
}
