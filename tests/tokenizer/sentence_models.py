"""Small SentencePiece models, trained when needed."""

import io

CORPUS = ["the cat sat on the mat", "a rat that ran at the cat", "the hat of the cat", "1 2 3 and é"] * 5


def train(path, **options):
    """The path of a model with byte fallback, a control piece "<|sep|>" and a user-defined piece "<tool>"."""
    import sentencepiece

    model = io.BytesIO()
    settings = {"model_type": "bpe", "vocab_size": 300, "normalization_rule_name": "identity"} | options
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS),
        model_writer=model,
        byte_fallback=True,
        remove_extra_whitespaces=False,
        hard_vocab_limit=False,
        control_symbols=["<|sep|>"],
        user_defined_symbols=["<tool>"],
        minloglevel=2,
        **settings,
    )
    path.write_bytes(model.getvalue())
    return path


def random_text(rng):
    """A text of words that are in the models, bytes that are not, and many spaces."""
    parts = ["the", "cat", " ", "  ", "é", "☃", "日本", "\n", "a", "3", "<tool>", "x", "\t", "<0x0A>"]
    return "".join(rng.choice(parts) for _ in range(rng.randrange(12)))
