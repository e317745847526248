"""The sentences of a page: its text without code, tables, headings and what is generated."""

import re

FENCE = re.compile(r"^ *(```+|~~~+).*?^ *\1[^\n]*$", re.M | re.S)
INDENTED_CODE = re.compile(r"(?:^(?: {4}|\t)(?! *(?:[-*+]|\d+\.) ).*\n?)+", re.M)
COMMENT = re.compile(r"<!--.*?-->", re.S)
TABLE_ROW = re.compile(r"^ *\|.*$", re.M)
HEADING = re.compile(r"^ *#+ .*$", re.M)
TAG = re.compile(r"<[^>\n]+>")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
INLINE_CODE = re.compile(r"(`+)(.+?)\1", re.S)
# A paragraph or a list item ends a sentence even without a full stop.
BLOCK_END = re.compile(r"\n\s*\n|\n(?= *(?:[-*+]|\d+\.) )")
SENTENCE_END = re.compile(r"(?<=[.!?:;])[\"')\]*_]*\s+")
WORD = re.compile(r"[^\W_](?:[\w'’.,/%×-]*[^\W_])?")


def prose(page: str) -> str:
    """Of the text of a page of Markdown what a reader reads as sentences. Inline code counts as one word."""
    page = page.split("\n---\n", 1)[1] if page.startswith("---\n") else page
    for left_out in (FENCE, COMMENT, HEADING, TABLE_ROW, INDENTED_CODE, TAG):
        page = left_out.sub("\n", page)
    return INLINE_CODE.sub("code", LINK.sub(r"\1", page))


def sentences(page: str) -> list[str]:
    """The sentences of a page, in its order."""
    blocks = BLOCK_END.split(prose(page))
    found = [sentence.strip() for block in blocks for sentence in SENTENCE_END.split(" ".join(block.split()))]
    return [sentence for sentence in found if WORD.search(sentence)]


def cells(page: str) -> list[str]:
    """The cells of the tables of a page, in its order."""
    rows = TABLE_ROW.findall(FENCE.sub("", page))
    texts = (INLINE_CODE.sub("code", LINK.sub(r"\1", TAG.sub("", row))) for row in rows)
    found = (cell.strip() for text in texts for cell in text.strip().strip("|").split("|"))
    return [cell for cell in found if WORD.search(cell)]


def words(text: str) -> int:
    """How many words a text has."""
    return len(WORD.findall(text))


def percentile(counts: list[int], share: float) -> int:
    """The smallest of the counts that is not below `share` of them; 0 of none."""
    return sorted(counts)[max(0, -(-int(share * 1000) * len(counts) // 1000) - 1)] if counts else 0
