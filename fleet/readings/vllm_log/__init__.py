"""Readings of the engine's start-up log: phases, numbers and failures, line by line."""

from fleet.readings.vllm_log.failures import Failure
from fleet.readings.vllm_log.phases import PHASES, phase_rank
from fleet.readings.vllm_log.reader import PhaseReader, Transition

__all__ = ["PHASES", "Failure", "PhaseReader", "Transition", "phase_rank"]
