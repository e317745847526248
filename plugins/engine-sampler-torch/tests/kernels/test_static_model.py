"""The static model: how machine code is read and counted, by text that was written for it, and what launches
find to do."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from on_device import static_model
from on_device.machine_code import Resources, instructions_of, loops_in, pipes_of
from on_device.static_model import CASES, H100, Launch, LaunchWork, start_step, work_of
from on_device.timings import VOCAB_SIZE, TimedCase

SASS = """
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   LDG.E R2, desc[UR4][R2.64] ;
.L_x_0:
        /*0020*/                   FADD R2, R2, R2 ;
        /*0030*/              @!P0 FMNMX R2, R2, R3, !PT ;
        /*0040*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0050*/               @P0 BRA `(.L_x_0) ;
        /*0060*/                   EXIT ;
.L_x_1:
        /*0070*/                   BRA `(.L_x_1);
        /*0080*/                   NOP;
"""
"""A loop, and the padding behind it."""


def test_instructions_are_counted_by_pipe_without_the_padding() -> None:
    code = instructions_of(SASS)
    assert pipes_of(code) == Counter(constant=1, fma=1, alu=1, control=3, **{"global": 1})
    assert loops_in(code) == [(0x20, 0x50)]


def test_what_is_inside_a_loop_counts_as_often_as_it_runs() -> None:
    pipes, barriers, loads = static_model._counted(instructions_of(SASS), 5)
    assert (pipes["fma"], pipes["alu"], pipes["constant"], barriers, loads) == (5, 5, 1, 5, 1)


def test_instructions_say_of_which_modules_they_come() -> None:
    lines = SASS.replace(
        ".L_x_0:",
        """	//## File "/a/whole.py", line 3 inlined at "/a/together.py", line 5
	//## File "/a/together.py", line 5
.L_x_0:""",
    ).replace("        /*0060*/", '	//## File "/a/together.py", line 9\n        /*0060*/')
    code = instructions_of(lines)
    assert [one.modules for one in code] == [frozenset()] * 2 + [{"whole", "together"}] * 4 + [{"together"}]


BRANCH = """
        /*0000*/               @P0 BRA `(.L_x_2) ;
.L_x_0:
        /*0010*/                   EXIT ;
.L_x_2:
        /*0020*/                   FADD R2, R2, R2 ;
.L_x_3:
        /*0030*/                   FADD R2, R2, R2 ;
        /*0040*/               @P0 BRA `(.L_x_3) ;
        /*0050*/                   BRA `(.L_x_0) ;
"""
"""A branch behind the end of the kernel, with a loop in it."""


@pytest.mark.parametrize(("rounds", "additions"), [(0, 0), (1, 2), (4, 5)])
def test_a_branch_that_jumps_back_counts_once_and_not_at_all_if_it_is_not_taken(
    rounds: int, additions: int
) -> None:
    pipes, _, _ = static_model._counted(instructions_of(BRANCH), rounds)
    assert pipes["fma"] == additions


def launch(programs: int, work: LaunchWork, alu: float = 100) -> Launch:
    return Launch("scan", programs, 8, Resources(32, 0, 0), {"alu": alu}, 0, 0, work)


def test_a_launch_takes_one_program_and_the_longer_of_pipes_and_bytes() -> None:
    def working(programs: int, work: LaunchWork, alu: float = 100) -> float:
        return static_model._working(launch(programs, work, alu), H100)

    one = static_model.CYCLES_AN_INSTRUCTION * 100 / 1980
    assert working(1, LaunchWork()) == pytest.approx(one, rel=0.1)
    assert working(132, LaunchWork(bytes=10 * 2.423e9 / 1e3)) == pytest.approx(one + 10 + static_model.RAMP)
    assert working(132, LaunchWork(bytes=1e6, again=True)) < working(132, LaunchWork(bytes=1e6))
    by_pipes = working(132 * 8, LaunchWork(), alu=1000)
    assert by_pipes == pytest.approx(
        (static_model.CYCLES_AN_INSTRUCTION * 1000 + 8 * 8 * 1000 * 32 / 64 / static_model.OF_LANES) / 1980
    )
    assert working(1, LaunchWork(share=0)) < 0.01
    assert working(2048, LaunchWork(share=0)) == pytest.approx(1.69, rel=0.01)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name} {case.dtype}")
def test_every_launch_of_every_case_has_something_to_do_or_nothing(case: TimedCase) -> None:
    recorder = static_model._Recorder()
    start_step(case, torch.empty(case.rows, VOCAB_SIZE, dtype=case.dtype, device="meta"), recorder)
    idle = set()
    for kernel, grid, _, constants, _ in recorder.noted:
        work = work_of(case, kernel.fn.__name__, grid, constants)
        assert 0 <= work.share <= 1
        if not work.share:
            idle.add(kernel.fn.__name__)
    assert ("spread" in idle) == (list(case.settings) == ["top_p"] and not case.flat)
    weighing = list(case.settings) in (["temperature"], ["top_p", "top_k"])
    assert ("weigh" in idle) == (weighing and not case.flat)


def test_ordinary_rows_are_read_once_and_their_candidates_again() -> None:
    case = CASES[0]
    recorder = static_model._Recorder()
    start_step(case, torch.empty(case.rows, VOCAB_SIZE, dtype=case.dtype, device="meta"), recorder)
    read = sum(
        work_of(case, kernel.fn.__name__, grid, constants).bytes
        for kernel, grid, _, constants, _ in recorder.noted
    )
    assert read < 1.1 * case.rows * VOCAB_SIZE * 4
