#include "penalties.h"

#include <float.h>
#include <math.h>

/* Whether a window of the newest tokens holds all of them. */
static bool is_whole(int64_t reach, const ascend_history *history, bool output_only) {
    const int64_t length = history->length - (output_only ? history->prompt_length : 0);
    return reach < 0 || reach >= length;
}

bool ascend_read_penalties(const es_params *params, const ascend_history *history, ascend_penalties *out) {
    *out = (ascend_penalties){
        .factor = (float)fmin(params->repetition_penalty, FLT_MAX),
        .frequency = params->frequency_penalty,
        .presence = params->presence_penalty,
        .repetition_in_prompt = !params->repetition_output_only,
        .counting_in_prompt = !params->counting_output_only,
        .repeats = params->repetition_penalty != 1 && params->repetition_reach != 0,
        .counts = (params->frequency_penalty != 0 || params->presence_penalty != 0) &&
                  params->counting_reach != 0,
    };
    if (!out->repeats && !out->counts) return true;
    if (!history || params->penalty_exempt.n || params->repetition_penalty_slope != 0) return false;
    if (params->penalty_decay_range > 0) return false;
    if (out->repeats && !is_whole(params->repetition_reach, history, params->repetition_output_only))
        return false;
    if (out->counts && !is_whole(params->counting_reach, history, params->counting_output_only)) return false;
    return (!out->repeats || out->factor >= 1) &&
           (!out->counts || (out->frequency >= 0 && out->presence >= 0));
}

static float clamped(float x) { return fminf(fmaxf(x, -FLT_MAX), FLT_MAX); }

float ascend_penalized(float logit, const ascend_penalties *penalties, ascend_count count) {
    const int32_t repeated = count.output + (penalties->repetition_in_prompt ? count.prompt : 0);
    const int32_t counted = count.output + (penalties->counting_in_prompt ? count.prompt : 0);
    if (penalties->repeats && repeated)
        logit = clamped(logit > 0 ? logit / penalties->factor : logit * penalties->factor);
    if (penalties->counts && counted)
        logit = clamped(logit - (float)((double)counted * penalties->frequency + penalties->presence));
    return logit;
}
