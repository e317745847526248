/* What CANN's codes mean for the host. */
#include "context.h"

#include <stdio.h>
#include <string.h>

int32_t ascend_code(int32_t status) {
    switch (status) {
    case 0: return ES_OK;
    case 200000: /* allocation */
    case 207001: /* device memory */
    case 300000: /* storage over its limit */ return ES_NO_MEMORY;
    case 100000: /* a parameter that the runtime refuses */
    case 161001: /* the same, of an operator: no tensor */
    case 161002: /* shapes or types that this version does not run */
    case 200001: /* no such function */
    case 200006: /* no such feature */
    case 207000: /* the same, of the runtime */
    case 561001: /* shapes */
    case 561002: /* tiling */
    case 561003: /* no kernel for this chip */
    case 561107: /* ASCEND_OPP_PATH is not set */
    case 561112: /* a package of kernels is missing */ return ES_UNSUPPORTED;
    case 561101: /* no executor */
    case 561103: /* a null pointer within */ return ES_BUSY;
    default: return ES_DEVICE;
    }
}

int32_t ascend_refuse(es_context *context, int32_t code, const char *why) {
    snprintf(context->error, sizeof context->error, "ascend: %s", why);
    return code;
}

int32_t ascend_checked(es_context *context, const char *call, int32_t status) {
    if (status == 0) return ES_OK;
    const char *words = context->cann.aclGetRecentErrMsg();
    snprintf(context->error, sizeof context->error, "ascend: %s returned %d%s%s", call, (int)status,
             words && *words ? ": " : "", words ? words : "");
    return ascend_code(status);
}
