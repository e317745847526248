/* Classes of characters, about forty, each one bit of a set.
 *
 * The bytes below a node of a trie are read as UTF-8. An expression that stays the same after every character
 * of a class need not be stepped through text made of such characters.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Bits that belong to no class: a byte that is not valid UTF-8 where it occurs, and a node that is reached
 * in the middle of a character. */
#define EG_MALFORMED ((uint64_t)1 << 62)
#define EG_INSIDE ((uint64_t)1 << 63)

/* The state of a UTF-8 decoder: `left` bytes of the character are still to come, the next from `low` to
 * `high`. */
typedef struct eg_utf8 {
    uint8_t left, low, high;
} eg_utf8;

/* The class of the characters that begin with `byte`, as a bit; EG_MALFORMED if there are none. If the
 * character has further bytes, `utf8` describes them. */
uint64_t eg_class_of(int byte, eg_utf8 *utf8);

/* The class that begins at `byte` in decoder state `utf8`, with EG_MALFORMED where that is not UTF-8; 0
 * inside a character. Advances `utf8` past the byte. */
static inline uint64_t eg_class_step(int byte, eg_utf8 *utf8) {
    if (!utf8->left) return eg_class_of(byte, utf8);
    if (byte >= utf8->low && byte <= utf8->high) {
        *utf8 = (eg_utf8){(uint8_t)(utf8->left - 1), 0x80, 0xbf};
        return 0;
    }
    return eg_class_of(byte, utf8) | EG_MALFORMED;
}
