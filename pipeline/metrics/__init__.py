"""Numbers with intervals: pure functions of a MatchTable."""
