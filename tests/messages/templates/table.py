"""Which family each chat template speaks, and which templates no family serves."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """A template's family.

    most_calls         how many calls it writes at once
    says_before_calls  whether a message may have content and calls
    """

    family: str
    most_calls: int = 3
    says_before_calls: bool = True


SERVED = {
    "Apertus-8B-Instruct": Entry("apertus"),
    "Bielik-11B-v3.0-Instruct": Entry("qwen_3"),
    "ByteDance-Seed-OSS": Entry("seed_oss"),
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": Entry("command_r7b"),
    "GLM-4.6": Entry("glm_4_5"),
    "GLM-4.7-Flash": Entry("glm_4_7"),
    "Kimi-K2-Instruct": Entry("kimi"),
    "Kimi-K2-Thinking": Entry("kimi"),
    "Kimi-K3": Entry("kimi_k3"),
    "LFM2.5-8B-A1B": Entry("lfm_2"),
    "MiMo-VL": Entry("qwen_3"),
    "MiniMax-M2": Entry("minimax"),
    "MiniMax-M3": Entry("minimax_m3"),
    "Mistral-Small-3.2-24B-Instruct-2506": Entry("mistral_v11"),
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": Entry("nemotron_3"),
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": Entry("hermes"),
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": Entry("hermes"),
    "Qwen-QwQ-32B": Entry("qwen_3"),
    "Qwen-Qwen2.5-7B-Instruct": Entry("qwen_2_5"),
    "Qwen-Qwen3-0.6B": Entry("qwen_3"),
    "Qwen3-Coder": Entry("qwen_3_coder"),
    "Qwen3.5-4B": Entry("qwen_3_5"),
    "Spark2.5": Entry("glm_4_7"),
    "StepFun3.5-Flash": Entry("nemotron_3"),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": Entry("deepseek_r1", says_before_calls=False),
    "deepseek-ai-DeepSeek-V3.1": Entry("deepseek_v3_1"),
    "deepseek-ai-DeepSeek-V3.2": Entry("deepseek_v3_2"),
    "deepseek-ai-DeepSeek-V4": Entry("deepseek_v4"),
    "deepseek-ai-DeepSeek-V4-Flash-0731": Entry("deepseek_v4"),
    "google-gemma-4-31B-it": Entry("gemma_4"),
    "google-gemma-4-31B-it-interleaved": Entry("gemma_4"),
    "ibm-granite-granite-4.0": Entry("granite_4"),
    "ibm-granite-granite-4.1": Entry("granite_4"),
    "meta-llama-Llama-3.1-8B-Instruct": Entry("llama", most_calls=1),
    "meta-llama-Llama-3.2-3B-Instruct": Entry("llama", most_calls=1),
    "meta-llama-Llama-3.3-70B-Instruct": Entry("llama", most_calls=1),
    "mistralai-Ministral-3-14B-Reasoning-2512": Entry("mistral_v11"),
    "mistralai-Mistral-Nemo-Instruct-2407": Entry("mistral"),
    "moonshotai-Kimi-K2": Entry("kimi"),
    "openai-gpt-oss-120b": Entry("harmony", most_calls=1),
    "unsloth-mistral-Devstral-Small-2507": Entry("mistral_v11"),
}
"""By name."""

_NO_CALLS = "it writes no calls"
_NO_FAMILY = "its form of calls has no family yet"
UNSERVED = {
    **dict.fromkeys(
        (
            "HuggingFaceTB-SmolLM3-3B",
            "LFM2-8B-A1B",
            "LFM2.5-Instruct",
            "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
            "google-gemma-2-2b-it",
            "ibm-granite-granite-3.3-2B-Instruct",
            "llama-cpp-rwkv-world",
            "microsoft-Phi-3.5-mini-instruct",
        ),
        _NO_CALLS,
    ),
    **dict.fromkeys(
        (
            "Apriel-1.6-15b-Thinker-fixed",
            "Cohere2MoE",
            "CohereForAI-c4ai-command-r-plus-tool_use",
            "GigaChat3-10B-A1.8B",
            "GigaChat3.1-10B-A1.8B",
            "MiniMax-M1",
            "NVIDIA-Nemotron-Nano-v2",
            "Reka-Edge",
            "fireworks-ai-llama-3-firefunction-v2",
            "inclusionai-ling-3.0-flash",
            "meetkai-functionary-medium-v3.1",
            "meetkai-functionary-medium-v3.2",
            "muse-glimmer",
            "openbmb-MiniCPM5-1B",
            "poolside-Laguna-S-2.1",
            "poolside-Laguna-XS-2.1",
            "poolside-Laguna-XS.2",
            "tencent-Hy3",
            "unsloth-Apriel-1.5",
            "upstage-Solar-Open-100B",
        ),
        _NO_FAMILY,
    ),
    "llama-cpp-deepseek-r1": "it needs llama.cpp's own filters",
}
"""By name, with the reason."""
