/* Classes of characters by their first byte. */
#include "grammar/base/characters.h"

enum { ASCII_CLASSES = 42, FIRST_LEAD = 0xc2 };

/* Letters by what patterns distinguish, all digits together, every sign by itself. */
static int ascii_class(int byte) {
    if (byte >= 'a' && byte <= 'z') return byte <= 'f' ? 0 : 1;
    if (byte >= 'A' && byte <= 'Z') return byte <= 'F' ? 2 : 3;
    if (byte >= '0' && byte <= '9') return 4;
    if (byte == '\t') return 5;
    if (byte == '\n') return 6;
    if (byte == '\r') return 7;
    if (byte < ' ' || byte == 0x7f) return 8;
    if (byte < '0') return 9 + byte - ' ';
    if (byte < 'A') return 25 + byte - ':';
    if (byte < 'a') return 32 + byte - '[';
    return 38 + byte - '{';
}

/* Characters beyond ASCII, roughly by script, by their first byte. */
static int lead_class(int byte) {
    static const uint8_t ends[] = {0xc4, 0xca, 0xd0, 0xd4, 0xd8, 0xe0, 0xe1,
                                   0xe2, 0xe3, 0xe4, 0xea, 0xee, 0xf0};
    int class = 0;
    while (class < (int)sizeof ends && byte >= ends[class]) class++;
    return class;
}

uint64_t eg_class_of(int byte, eg_utf8 *utf8) {
    *utf8 = (eg_utf8){0};
    if (byte < 0x80) return (uint64_t)1 << ascii_class(byte);
    if (byte < FIRST_LEAD || byte > 0xf4) return EG_MALFORMED;
    utf8->left = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    utf8->low = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
    utf8->high = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
    return (uint64_t)1 << (ASCII_CLASSES + lead_class(byte));
}
