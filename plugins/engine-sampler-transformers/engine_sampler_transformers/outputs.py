"""The result of `generate(return_dict_in_generate=True)`, collected step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine_sampler import Record, StepResult


class GenerateOutputs:
    """The parts of transformers' output object that a `GenerationConfig` requests.

    scores   a float32 [rows, width] per step, the scores after the chain; None if not requested.
    """

    def __init__(self, config: Any, is_encoder_decoder: bool) -> None:
        requested = bool(config.return_dict_in_generate)
        self._requested = requested
        self._is_encoder_decoder = is_encoder_decoder
        self.scores: tuple[Any, ...] | None = () if requested and config.output_scores else None
        self._logits: tuple[Any, ...] | None = () if requested and config.output_logits else None
        names = []
        if requested and config.output_attentions:
            names += ["decoder_attentions", "cross_attentions"] if is_encoder_decoder else ["attentions"]
        if requested and config.output_hidden_states:
            names += ["decoder_hidden_states"] if is_encoder_decoder else ["hidden_states"]
        self._model_outputs: dict[str, tuple[Any, ...]] = dict.fromkeys(names, ())
        self._steps: list[StepResult] = []

    def add_logits(self, outputs: Any, logits: Any) -> None:
        """Record one forward pass and its logits [rows, width]."""
        if self._logits is not None:
            self._logits += (logits,)
        for name in self._model_outputs:
            self._model_outputs[name] += (getattr(outputs, name),)

    def add_step(self, result: StepResult, scores: Any) -> None:
        """Record the scheduler's step; `scores` may be None if they are not requested."""
        if self._requested:
            self._steps.append(result)
        if self.scores is not None:
            self.scores += (scores,)

    def finish(self, sequences: Any, records: Sequence[Record], model_kwargs: dict[str, Any]) -> Any:
        """The sequences, or the output object with them."""
        if not self._requested:
            return sequences
        from transformers import generation  # type: ignore[import-not-found]

        parts = {"sequences": sequences, "scores": self.scores, "logits": self._logits, **self._model_outputs}
        parts["past_key_values"] = model_kwargs.get("past_key_values", model_kwargs.get("cache_params"))
        if self._is_encoder_decoder:
            encoder = model_kwargs["encoder_outputs"]
            parts["encoder_attentions"] = encoder.get("attentions")
            parts["encoder_hidden_states"] = encoder.get("hidden_states")
            output = generation.GenerateEncoderDecoderOutput(**parts)
        else:
            output = generation.GenerateDecoderOnlyOutput(**parts)
        output.records, output.steps = list(records), self._steps
        return output
