"""What a call cost and said, kept: cache, resume, replay, budget and repeats in one mechanism."""
