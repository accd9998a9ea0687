"""A repeatable stand-in for a language model, whose skill depends on the prompt. It is simulated, and says so."""

from judges.simulated_lm.model import SimulatedLM
from judges.simulated_lm.profiles import PREFIX, PROFILES, Profile, profile_of

__all__ = ["PREFIX", "PROFILES", "Profile", "SimulatedLM", "profile_of"]
