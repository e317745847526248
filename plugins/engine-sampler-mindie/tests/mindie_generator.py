"""A small engine that makes the calls that MindIE's generator makes of its sampler, in their order.

It keeps what that keeps of each sequence: tokens in rows of one length, filled up with the pad token, the
number of output tokens, sums of logprobs and seeds; and makes the metadata of a batch from them. Its model's
logits follow from the tokens.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
from engine_sampler_mindie.text_generator.utils.sampling_metadata import SamplingMetadata

VOCAB = 32
ROOM = 64
FIELDS = (
    "repetition_penalty", "frequency_penalty", "presence_penalty", "temperature", "top_k", "top_p",
    "do_sample", "top_logprobs",
)  # fmt: skip
RECORD = [(name, "f4") for name in FIELDS]
NEUTRAL = (1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0)


def logits_of(tokens):
    """float32 [VOCAB], of the text that the tokens are."""
    return np.random.default_rng(list(tokens)).normal(size=VOCAB).astype(np.float32) * 2


@dataclass
class Asked:
    """A request: its prompt, its settings, and the ids for further sequences of it."""

    prompt: list
    settings: dict = field(default_factory=dict)
    seed: int | None = None
    best_of: int = 1
    beams: bool = False
    reserved: list = field(default_factory=list)

    @property
    def record(self):
        return tuple(self.settings.get(name, neutral) for name, neutral in zip(FIELDS, NEUTRAL, strict=True))


@dataclass
class Text:
    """What is known of a sequence."""

    asked: Asked
    all_ids: np.ndarray
    output_ids: np.ndarray
    length: int
    outputs: int = 0
    total: float = 0.0
    seed: int = 0

    def tokens(self):
        return self.all_ids[: self.length].tolist()


class Generator:
    """Requests by their first sequence, in order."""

    def __init__(self, sampler, pad_token_id, eos_token_id=None):
        self.sampler, self.pad = sampler, pad_token_id
        self.eos = [] if eos_token_id is None else eos_token_id
        sampler.initialize("npu", self.eos)
        self.texts, self.groups = {}, []
        self.finished = []
        self.known = (None, None)

    def prefill(self, requests):
        """The first tokens of {sequence: Asked}."""
        for sequence, asked in requests.items():
            all_ids = np.full(ROOM, self.pad)
            all_ids[: len(asked.prompt)] = asked.prompt
            self.texts[sequence] = Text(asked, all_ids, np.full(ROOM, self.pad), len(asked.prompt))
        self.groups += [[sequence] for sequence in requests]
        metadata = self.metadata_of(requests)
        longest = max(len(asked.prompt) for asked in requests.values())
        ids = np.stack([self.texts[sequence].all_ids[:longest] for sequence in requests])
        metadata.update_token_ids(ids, None)
        return self.take(metadata, self.logits(requests))

    def metadata_of(self, requests):
        """What is told of prompts that begin."""
        asked = list(requests.values())
        seeds = np.array([a.seed for a in asked], object)
        seeds[[seed is None for seed in seeds]] = 0
        return SamplingMetadata.from_batch(
            input_metadata=SimpleNamespace(
                batch_sequence_ids=[np.array([sequence]) for sequence in requests],
                reserved_sequence_ids=[np.array(a.reserved) for a in asked],
                is_prefill=True,
                all_sequence_ids=np.array(list(requests)),
                batch_seq_len=np.array([len(a.prompt) for a in asked]),
                split_end_position=None,
            ),
            batch_sampling_params=np.array([a.record for a in asked], RECORD),
            num_top_tokens=np.array([a.settings.get("top_logprobs", 0) for a in asked], np.int32),
            to_tensor=lambda array: array,
            batch_seeds=seeds,
            batch_best_of=np.array([a.best_of for a in asked]),
            batch_n=np.array([a.best_of for a in asked]),
            batch_use_beam_search=np.array([a.beams or None for a in asked]),
            batch_output_lengths=np.zeros(len(asked), np.int64),
            batch_cumulative_logprobs=np.zeros(len(asked), np.float32),
            cache_ids=np.arange(len(asked)),
            random_number_generators=[None] * len(asked),
        )

    def decode(self):
        """The next token of every text."""
        sequences = [sequence for group in self.groups for sequence in group]
        texts = [self.texts[sequence] for sequence in sequences]
        last, metadata = self.known
        if last != sequences or metadata.is_prefill:
            metadata = SamplingMetadata.from_batch(
                input_metadata=SimpleNamespace(
                    batch_sequence_ids=[np.array(group) for group in self.groups],
                    reserved_sequence_ids=[np.array([]) for _ in self.groups],
                    is_prefill=False,
                    all_sequence_ids=np.array(sequences),
                    batch_seq_len=np.array([]),
                ),
                batch_sampling_params=np.array([t.asked.record for t in texts], RECORD),
                num_top_tokens=np.array([t.asked.settings.get("top_logprobs", 0) for t in texts], np.int32),
                to_tensor=lambda array: array,
                batch_seeds=np.array([text.seed for text in texts]),
                batch_best_of=np.array([text.asked.best_of for text in texts]),
                batch_n=np.array([text.asked.best_of for text in texts]),
                batch_use_beam_search=np.array([text.asked.beams for text in texts]),
                batch_output_lengths=np.array([text.outputs for text in texts]),
                batch_cumulative_logprobs=np.array([text.total for text in texts], np.float32),
                is_mix=None,
            )
        longest, most = max(text.length for text in texts), max(text.outputs for text in texts)
        metadata.update_token_ids(
            np.stack([text.all_ids[:longest] for text in texts]),
            np.stack([text.output_ids[:most] for text in texts]),
        )
        metadata.update_beam_search(
            np.array([text.total for text in texts], np.float32), np.array([text.outputs for text in texts])
        )
        return self.take(metadata, self.logits(sequences))

    def logits(self, sequences):
        return np.stack([logits_of(self.texts[sequence].tokens()) for sequence in sequences])

    def take(self, metadata, logits):
        """Sample, and let every text go on from its parent."""
        output = self.sampler(logits, metadata)
        self.known = (metadata.all_sequence_ids.tolist(), metadata)
        parents = {sequence: self.copied(text) for sequence, text in self.texts.items()}
        output.token_ids = np.expand_dims(output.token_ids, 1)
        for eos in self.eos:
            output.truncate_after_eos(eos)
        renewed = []
        for start, end in output.group_indices:
            group = []
            for row in range(start, end):
                sequence, parent = int(output.sequence_ids[row]), int(output.parent_sequence_ids[row])
                text = self.copied(parents[parent])
                token = output.token_ids[row][output.num_new_tokens[row] - 1]
                text.all_ids[text.length] = text.output_ids[text.outputs] = token
                text.length, text.outputs = text.length + 1, text.outputs + 1
                if metadata.is_prefill:
                    text.seed = int(np.array(output.seeds).astype(np.int64)[row])
                if text.asked.beams:
                    text.total += float(output.logprobs[row])
                if sequence == -1:
                    self.finished.append((float(output.cumulative_logprobs[row]), text.tokens()))
                    continue
                self.texts[sequence] = text
                group.append(sequence)
            renewed.append(group)
        rest = [group for group in self.groups if group[0] not in metadata.all_sequence_ids]
        self.groups = rest + renewed
        return output

    def copied(self, text):
        return Text(
            text.asked, text.all_ids.copy(), text.output_ids.copy(), text.length, text.outputs, text.total,
            text.seed,
        )  # fmt: skip

    def finish(self, sequences):
        self.sampler.clear_cache(np.asarray(sequences))
        self.groups = [group for group in self.groups if group[0] not in sequences]
