"""Structural tags: text with parts, such as calls of tools, that must follow a format.

A structural tag is a dict or JSON text, in one of two forms:

    {"type": "structural_tag", "triggers": ["<tool"],
     "structures": [{"begin": "<tool=add>", "schema": {...}, "end": "</tool>"}]}

    {"type": "structural_tag", "format": {"type": "triggered_tags", ...}}

The first is short for `triggered_tags` over tags that contain `json_schema`. A format is a dict; its `type`:

    const_string        value: this string
    json_schema         json_schema: a JSON value, with no white space around it. any_order: false: its keys
                        in the order of the schema; max_whitespace_cnt: the most white space between tokens;
                        style: "json", or how the members of an object are written: "pythonic", as keyword
                        arguments, or one of `parameters.STYLES` and `elements.NOTATIONS`; excludes: not in
                        the texts of `STYLES`; name: what errors call the schema, which is that of a call's
                        arguments: unless `unsupported` is "error", they are any object where it is of no use
    grammar             grammar: a text of this grammar, in Lark's language, in GBNF or in EBNF
    regex               pattern: a text that this regular expression, in Python's syntax, matches; excludes:
                        not in it
    qwen_xml_parameter  json_schema: short for json_schema with the style "qwen_xml"
    any_text            excludes: any text in which these do not occur; max_chars: its maximum length;
                        max_tokens: how many tokens may begin in it. A text that cannot end after them, as
                        within a character, goes on until it can, with a warning
    token               token: one token, by name or id
    exclude_token       exclude_tokens: any one token but these
    any_tokens          exclude_tokens: any tokens but these; max_tokens: at most so many
    sequence, or        elements: all in sequence; any one of them
    optional, plus, star, repeat    content, and for repeat min and max (-1: unbounded)
    tag                 begin, content, end: all in sequence. begin and end are strings, or token formats;
                        end may be a list: any one of them. A token that is the end is excluded from
                        any_tokens and exclude_token as content
    triggered_tags      triggers, tags: any text; a trigger must be followed by the rest of one of the tags
                        that begin with it, then text again. at_least_one: a tag comes first, without text
                        before it; stop_after_first: nothing follows the first tag; excludes: not in the text
    token_triggered_tags    trigger_tokens, tags that begin with those tokens, exclude_tokens; else the same
    tags_with_separator     tags, separator: separated tags, nothing else. at_least_one: one or more tags;
                        stop_after_first: at most one
    dispatch            rules, pairs of a string and a format: any text; each of the strings must be followed
                        by its format. loop: then text again (default true); excludes: not in the text
    token_dispatch      rules, pairs of a token and a format, loop, exclude_tokens: the same with tokens; the
                        text is any tokens but these

Text is valid UTF-8. Inside a tag, text at the end of the content stops where the tag's end first occurs. If
one trigger completes another, a tag of either may follow. What looks like the name of a special token in a
string (see `marks`) is that token where the vocabulary has it, as a special token or as one that was added,
and text elsewhere; special tokens are never part of free text.
"""
