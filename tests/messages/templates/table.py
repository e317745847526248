"""Which family each chat template speaks, and which templates no family serves."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """A template's family.

    most_calls         how many calls it writes at once
    says_before_calls  whether a message may have content and calls
    says_behind_calls  whether it writes such content behind the calls
    arguments_as_text  whether it takes the arguments of calls as JSON text
    """

    family: str
    most_calls: int = 3
    says_before_calls: bool = True
    says_behind_calls: bool = False
    arguments_as_text: bool = False


SERVED = {
    "Apertus-8B-Instruct": Entry("apertus"),
    "Apriel-1.6-15b-Thinker-fixed": Entry("apriel_1_6"),
    "Bielik-11B-v3.0-Instruct": Entry("qwen_3"),
    "ByteDance-Seed-OSS": Entry("seed_oss"),
    "Cohere2MoE": Entry("command_a"),
    "CohereForAI-c4ai-command-r-plus-tool_use": Entry("command_r_plus"),
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": Entry("command_r7b"),
    "GLM-4.6": Entry("glm_4_5"),
    "GLM-4.7-Flash": Entry("glm_4_7"),
    "GigaChat3-10B-A1.8B": Entry("gigachat_3", most_calls=1),
    "GigaChat3.1-10B-A1.8B": Entry("gigachat_3_1", most_calls=1),
    "Kimi-K2-Instruct": Entry("kimi"),
    "Kimi-K2-Thinking": Entry("kimi"),
    "Kimi-K3": Entry("kimi_k3"),
    "LFM2.5-8B-A1B": Entry("lfm_2"),
    "MiMo-VL": Entry("qwen_3"),
    "MiniMax-M1": Entry("minimax_m1"),
    "MiniMax-M2": Entry("minimax"),
    "MiniMax-M3": Entry("minimax_m3"),
    "Mistral-Small-3.2-24B-Instruct-2506": Entry("mistral_v11"),
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": Entry("nemotron_3"),
    "NVIDIA-Nemotron-Nano-v2": Entry("nemotron_nano_2", says_before_calls=False),
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": Entry("hermes"),
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": Entry("hermes"),
    "Qwen-QwQ-32B": Entry("qwen_3"),
    "Qwen-Qwen2.5-7B-Instruct": Entry("qwen_2_5"),
    "Qwen-Qwen3-0.6B": Entry("qwen_3"),
    "Qwen3-Coder": Entry("qwen_3_coder"),
    "Qwen3.5-4B": Entry("qwen_3_5"),
    "Reka-Edge": Entry("reka_edge"),
    "Spark2.5": Entry("glm_4_7"),
    "StepFun3.5-Flash": Entry("step_3_5"),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": Entry("deepseek_r1", says_before_calls=False),
    "deepseek-ai-DeepSeek-V3.1": Entry("deepseek_v3_1"),
    "deepseek-ai-DeepSeek-V3.2": Entry("deepseek_v3_2"),
    "deepseek-ai-DeepSeek-V4": Entry("deepseek_v4"),
    "deepseek-ai-DeepSeek-V4-Flash-0731": Entry("deepseek_v4"),
    "fireworks-ai-llama-3-firefunction-v2": Entry("firefunction_2"),
    "google-gemma-4-31B-it": Entry("gemma_4", says_behind_calls=True),
    "google-gemma-4-31B-it-interleaved": Entry("gemma_4", says_behind_calls=True),
    "ibm-granite-granite-4.0": Entry("granite_4"),
    "ibm-granite-granite-4.1": Entry("granite_4"),
    "inclusionai-ling-3.0-flash": Entry("ling_3"),
    "meetkai-functionary-medium-v3.1": Entry("functionary_3_1"),
    "meetkai-functionary-medium-v3.2": Entry("functionary_3_2", arguments_as_text=True),
    "meta-llama-Llama-3.1-8B-Instruct": Entry("llama", most_calls=1),
    "meta-llama-Llama-3.2-3B-Instruct": Entry("llama", most_calls=1),
    "meta-llama-Llama-3.3-70B-Instruct": Entry("llama", most_calls=1),
    "mistralai-Ministral-3-14B-Reasoning-2512": Entry("mistral_v11"),
    "mistralai-Mistral-Nemo-Instruct-2407": Entry("mistral"),
    "moonshotai-Kimi-K2": Entry("kimi"),
    "muse-glimmer": Entry("muse_glimmer"),
    "openai-gpt-oss-120b": Entry("harmony", most_calls=1),
    "openbmb-MiniCPM5-1B": Entry("minicpm_5"),
    "poolside-Laguna-S-2.1": Entry("laguna"),
    "poolside-Laguna-XS-2.1": Entry("laguna"),
    "poolside-Laguna-XS.2": Entry("laguna"),
    "tencent-Hy3": Entry("hunyuan_3"),
    "unsloth-Apriel-1.5": Entry("apriel_1_5"),
    "unsloth-mistral-Devstral-Small-2507": Entry("mistral_v11"),
    "upstage-Solar-Open-100B": Entry("solar_open"),
}
"""By name."""

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
        "it writes no calls",
    ),
    "llama-cpp-deepseek-r1": "it needs filters of llama.cpp's own",
}
"""By name, with the reason."""
