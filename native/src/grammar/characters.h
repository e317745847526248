/* characters.h: classes of characters, some forty, each a bit of a set.
 *
 * The bytes below a node of a trie are read as UTF-8, and an expression that is the same behind every
 * character of a class need not be stepped through a text of such characters.
 */
#ifndef ES_GRAMMAR_CHARACTERS_H
#define ES_GRAMMAR_CHARACTERS_H

#include <stdbool.h>
#include <stdint.h>

/* A byte that is no UTF-8 where it stands, and a node that is reached inside of a character: bits that are
 * in no class. */
#define EG_MALFORMED ((uint64_t)1 << 62)
#define EG_INSIDE ((uint64_t)1 << 63)

/* Where a text is within a character: so many bytes are still to come, the next from `low` to `high`. */
typedef struct eg_utf8 {
    uint8_t left, low, high;
} eg_utf8;

/* The class of the characters that begin with `byte`, a bit; EG_BROKEN where none does. Where the character has
 * further bytes, `within` says which. */
uint64_t eg_class_of(int byte, eg_utf8 *utf8);

/* The class that begins at `byte`, or what is broken there, where the text is at `within`; 0 inside of a
 * character. `within` is moved behind the byte. */
static inline uint64_t eg_class_step(int byte, eg_utf8 *utf8) {
    if (!utf8->left) return eg_class_of(byte, utf8);
    if (byte >= utf8->low && byte <= utf8->high) {
        *utf8 = (eg_utf8){(uint8_t)(utf8->left - 1), 0x80, 0xbf};
        return 0;
    }
    return eg_class_of(byte, utf8) | EG_MALFORMED;
}

#endif
