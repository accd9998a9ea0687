"""The calls of an evaluation as files: answered by a provider's batch API, by a person or by another system."""
